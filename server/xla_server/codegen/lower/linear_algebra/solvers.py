"""Lowering of LAPACK's calls for systems that need no factors.

Semantics: xla_server.custom_calls.linear_algebra.solvers and perturbed.
"""

from collections.abc import Mapping

from xla_contract.types.element_type import ElementType
from xla_server.codegen.lower.linear_algebra.matrix_kernel import MatrixCall, MatrixKernel, option
from xla_server.codegen.lower.linear_algebra.triangular import solve
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.routines.linear_algebra.perturbed import perturbed
from xla_server.ir.module import HloInstruction


def lower_trsm(lowering: Lowering, i: HloInstruction) -> Tree:
    """The solution in a copy of the right side."""
    side, triangle, transpose, diagonal = (
        option(i, name) for name in ("side", "uplo", "trans_x", "diag")
    )
    return solve(lowering, i, side, triangle, transpose, diagonal)


def lower_gtsv(lowering: Lowering, i: HloInstruction) -> Tree:
    """(the diagonals overwritten, the solution, status)"""
    k = MatrixKernel(lowering, i, 1)
    n, count = i.shape.tuple_shapes[3].dimensions[-2:]
    below, diagonal, above = (k.change(number, number) for number in range(3))
    right = k.take(3)
    # The lower diagonal starts with an element that is not read.
    diagonals = {"dl": below + k.element.byte_width, "d": diagonal, "du": above}
    given = {**diagonals, "b": right, "ldb": n, "info": k.write(4)}
    k.call("gtsv", {"n": n, "nrhs": count, **given})
    k.give(right, 3)
    return k.done()


def lower_perturbed(lowering: Lowering, i: HloInstruction) -> Tree:
    """The solution of a system that may be singular, in a copy of the right side."""
    k = MatrixKernel(lowering, i, 1)
    n, count = i.shape.dimensions[-2:]
    diagonals = {each: k.read(number) for number, each in enumerate(("below", "diagonal", "above"))}
    outputs = {"solution": k.change(0, 3), "upper": k.room(k.element, 3 * n)}
    k.body.call(perturbed(k.computed), {**diagonals, **outputs, "n": n, "count": count})
    return k.done()


def calls(element: ElementType) -> Mapping[str, MatrixCall]:
    """Lowerings by LAPACK's names without the letter of the type."""
    return {
        "trsm": MatrixCall(lower_trsm),
        "gtsv": MatrixCall(lower_gtsv, {0: 0, 1: 1, 2: 2, 3: 3}, 1),
    }


PORTABLE: Mapping[str, MatrixCall] = {
    "tridiagonal_solve_perturbed_ffi": MatrixCall(lower_perturbed, {0: 3}, 1)
}
"""Lowerings of portable targets."""
