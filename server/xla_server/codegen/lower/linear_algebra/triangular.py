"""Lowering of cholesky, triangular-solve and LAPACK's calls for systems: one call for each matrix.

Large matrices are processed by blocks, between which cancellation is polled. Narrow floats were
widened before. Semantics of custom calls: xla_server.custom_calls.linear_algebra.solvers and
perturbed.
"""

from collections.abc import Mapping

from xla_contract.ops.linear_algebra.cholesky import CholeskyAttributes
from xla_contract.ops.linear_algebra.triangular_solve import Transpose, TriangularSolveAttributes
from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel_ir.builder import Branch
from xla_server.codegen.kernel_ir.expressions import Expression, condition, load_at, whole
from xla_server.codegen.lower.linear_algebra.matrix_kernel import (
    MatrixCall,
    MatrixKernel,
    flag,
    option,
    real,
)
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.routines.linear_algebra.matrix_blocks import is_by_blocks
from xla_server.codegen.routines.linear_algebra.perturbed import perturbed
from xla_server.ir.module import HloInstruction

_LETTER = {Transpose.NO_TRANSPOSE: "N", Transpose.TRANSPOSE: "T", Transpose.ADJOINT: "C"}
_OTHER_SIDE = {"L": "R", "R": "L"}
OTHER_TRIANGLE = {"L": "U", "U": "L"}
"""The triangle of a row-major matrix, as the column-major LAPACK sees its transpose."""


def lower_cholesky(lowering: Lowering, i: HloInstruction) -> Tree:
    """Factor a copy of the matrices within its buffer; NaN for a matrix without a factor.

    Not every LAPACK tests pivots for NaN, so a status of success may be wrong. The transpose of a
    Hermitian matrix is its conjugate, whose factors are conjugated, so the factor's transpose is
    the result.
    """
    attributes: CholeskyAttributes = i.attributes
    k = MatrixKernel(lowering, i)
    if not i.shape.element_count:
        return k.result
    n, factor, status = k.rows, k.change(0, 0), k.status()
    factorize(k, factor, status, "U" if attributes.lower else "L")
    kind, parts = k.real.text, 2 if k.element.is_complex else 1
    failed = k.body.declare("failed", k.is_failed(status))
    with k.loop(n) as r:
        pivot = k.body.let("pivot", load_at(kind, factor, r * ((n + 1) * parts)))
        is_nan = condition("ne", pivot, pivot)
        k.body.set(failed, condition("bit_or", failed, is_nan))
    branch = Branch(k.body, failed)
    with k.within(branch):
        k.fill(k.element, factor, n * n, k.nan)
    with k.within(branch.orelse), k.loop(n) as r:
        first, last = (r + 1, whole(n)) if attributes.lower else (whole(0), r)
        with k.loop(last * parts, first * parts, n * parts / 2) as c:
            k.store(kind, factor, r * (n * parts) + c, real(kind, 0))
    branch.close()
    return k.done()


def factorize(k: MatrixKernel, matrix: Expression, status: Expression, triangle: str) -> None:
    """Compute Cholesky's factor in the triangle of a matrix with LAPACK's letter `triangle`."""
    n = k.rows
    if is_by_blocks(k.computed, n, n**3 // 3):
        is_lower = flag(triangle == "L")
        operands = {"a": matrix, "n": n, "is_lower": is_lower, "status": status}
        k.call_by_blocks("cholesky", operands)
        k.stop()
    else:
        k.call("potrf", {"uplo": triangle, "n": n, "a": matrix, "lda": n, "info": status})


def lower_triangular_solve(lowering: Lowering, i: HloInstruction) -> Tree:
    """Solve within the buffer of a copy of the right-hand sides."""
    a: TriangularSolveAttributes = i.attributes
    k = MatrixKernel(lowering, i)
    if not i.shape.element_count:
        return k.result
    side, triangle = "L" if a.left_side else "R", "L" if a.lower else "U"
    diagonal = "U" if a.unit_diagonal else "N"
    solve(k, side, triangle, _LETTER[a.transpose_a], diagonal)
    return k.done()


def solve(k: MatrixKernel, side: str, triangle: str, transpose: str, diagonal: str) -> None:
    """Solve with the triangular first operand; the letters are those of BLAS."""
    m, n = k.instruction.shape.dimensions[-2:]
    if is_by_blocks(k.computed, k.rows, m * n * k.rows // 2):
        # The transposed system, as BLAS is column-major.
        is_left, letter = side == "R", OTHER_TRIANGLE[triangle]
        others, ahead = (m, n) if is_left else (n, n)
        parts = min(k.tuned.solver_items // k.count, others // k.tuned.min_item_systems)
        k.parts = parts = max(1, parts)
        factors, systems = k.read(0), k.change(0, 1)
        first = k.part * others // parts if parts > 1 else whole(0)
        last = (k.part + 1) * others // parts if parts > 1 else whole(others)
        apart = (n if is_left else 1) * k.element.byte_width
        is_upper = (letter == "U") == (transpose == "N")
        systems = systems + first * apart
        operands: dict[str, int | Expression] = {"a": factors, "b": systems, "order": k.rows}
        operands |= {"others": last - first, "ahead": ahead}
        operands |= {"is_left": flag(is_left), "goes_on": flag(is_upper != is_left)}
        letters = {"triangle": letter, "form": transpose, "diagonal": diagonal}
        k.call_by_blocks("solve", operands | {name: ord(each) for name, each in letters.items()})
        return
    one = k.workspace(k.element, 1)
    k.fill(k.element, one, 1, real(k.real.text, 1))
    options = {"side": _OTHER_SIDE[side], "uplo": OTHER_TRIANGLE[triangle]}
    options |= {"transa": transpose, "diag": diagonal}
    triangles = {"alpha": one, "a": k.read(0)}
    sizes = {"m": n, "n": m, "lda": k.rows, "ldb": n}
    k.call("trsm", {**options, **sizes, **triangles, "b": k.change(0, 1)})


def _trsm(k: MatrixKernel) -> None:
    """The solution in a copy of the right-hand side."""
    side, triangle, transpose, diagonal = (
        option(k.instruction, name) for name in ("side", "uplo", "trans_x", "diag")
    )
    solve(k, side, triangle, transpose, diagonal)


def _gtsv(k: MatrixKernel) -> None:
    """(the diagonals overwritten, the solution, status)"""
    n, count = k.instruction.shape.tuple_shapes[3].dimensions[-2:]
    below, diagonal, above = (k.change(number, number) for number in range(3))
    right = k.to_column_major(3)
    # The lower diagonal starts with an element that is not read.
    diagonals = {"dl": below + k.element.byte_width, "d": diagonal, "du": above}
    operands = {**diagonals, "b": right, "ldb": n, "info": k.write(4)}
    k.call("gtsv", {"n": n, "nrhs": count, **operands})
    k.from_column_major(right, 3)


def _perturbed(k: MatrixKernel) -> None:
    """The solution of a system that may be singular, in a copy of the right-hand side."""
    n, count = k.instruction.shape.dimensions[-2:]
    diagonals = {each: k.read(number) for number, each in enumerate(("below", "diagonal", "above"))}
    outputs = {"solution": k.change(0, 3), "upper": k.workspace(k.element, 3 * n)}
    k.body.call(perturbed(k.computed), {**diagonals, **outputs, "n": n, "count": count})


def calls(element: ElementType) -> Mapping[str, MatrixCall]:
    """Lowerings by LAPACK's names without the letter of the type."""
    return {"trsm": MatrixCall(_trsm), "gtsv": MatrixCall(_gtsv, {0: 0, 1: 1, 2: 2, 3: 3}, 1)}


PORTABLE: Mapping[str, MatrixCall] = {
    "tridiagonal_solve_perturbed_ffi": MatrixCall(_perturbed, {0: 3}, 1)
}
"""Lowerings of portable targets."""
