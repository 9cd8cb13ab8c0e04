"""Lowering of LAPACK's calls for systems that need no factors.

Semantics: xla_server.custom_calls.linear_algebra.solvers and perturbed.
"""

from collections.abc import Mapping

from xla_contract.types.element_type import ElementType
from xla_server.codegen.lower.linear_algebra.matrix_kernel import MatrixCall, MatrixKernel, option
from xla_server.codegen.lower.linear_algebra.triangular import solve
from xla_server.codegen.routines.linear_algebra.perturbed import perturbed


def _trsm(k: MatrixKernel) -> None:
    """The solution in a copy of the right side."""
    side, triangle, transpose, diagonal = (
        option(k.instruction, name) for name in ("side", "uplo", "trans_x", "diag")
    )
    solve(k, side, triangle, transpose, diagonal)


def _gtsv(k: MatrixKernel) -> None:
    """(the diagonals overwritten, the solution, status)"""
    n, count = k.instruction.shape.tuple_shapes[3].dimensions[-2:]
    below, diagonal, above = (k.change(number, number) for number in range(3))
    right = k.take(3)
    # The lower diagonal starts with an element that is not read.
    diagonals = {"dl": below + k.element.byte_width, "d": diagonal, "du": above}
    given = {**diagonals, "b": right, "ldb": n, "info": k.write(4)}
    k.call("gtsv", {"n": n, "nrhs": count, **given})
    k.give(right, 3)


def _perturbed(k: MatrixKernel) -> None:
    """The solution of a system that may be singular, in a copy of the right side."""
    n, count = k.instruction.shape.dimensions[-2:]
    diagonals = {each: k.read(number) for number, each in enumerate(("below", "diagonal", "above"))}
    outputs = {"solution": k.change(0, 3), "upper": k.room(k.element, 3 * n)}
    k.body.call(perturbed(k.computed), {**diagonals, **outputs, "n": n, "count": count})


def calls(element: ElementType) -> Mapping[str, MatrixCall]:
    """Lowerings by LAPACK's names without the letter of the type."""
    return {
        "trsm": MatrixCall(_trsm),
        "gtsv": MatrixCall(_gtsv, {0: 0, 1: 1, 2: 2, 3: 3}, 1),
    }


PORTABLE: Mapping[str, MatrixCall] = {
    "tridiagonal_solve_perturbed_ffi": MatrixCall(_perturbed, {0: 3}, 1)
}
"""Lowerings of portable targets."""
