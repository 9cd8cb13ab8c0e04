"""Lowering of cholesky and triangular-solve: one call of LAPACK or BLAS for each matrix.

Narrow floats do not come here: they are widened before.
"""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_contract.ops.cholesky import CholeskyAttributes
from xla_contract.ops.triangular_solve import Transpose, TriangularSolveAttributes
from xla_server.codegen.lowering import Lower, Lowering, Tree
from xla_server.codegen.matrix_kernel import MatrixKernel
from xla_server.ir.module import HloInstruction

_LETTER = {Transpose.NO_TRANSPOSE: "N", Transpose.TRANSPOSE: "T", Transpose.ADJOINT: "C"}
_OTHER_SIDE = {"L": "R", "R": "L"}
OTHER_TRIANGLE = {"L": "U", "U": "L"}
"""What the named triangle of a matrix is in its transposed, as which LAPACK sees it."""


def lower_cholesky(lowering: Lowering, i: HloInstruction) -> Tree:
    """The factors in the place of a copy of the matrices, NaN where there is no factor.

    Not every LAPACK looks for NaN in its pivots: what it calls a factor may be unfinished. The
    transposed of a Hermitian matrix is its conjugate, whose factors are the conjugate ones, so
    that the transposed factor is the wanted one.
    """
    attributes: CholeskyAttributes = i.attributes
    k = MatrixKernel(lowering, i)
    if not i.shape.element_count:
        return k.result
    n, factor, status = k.rows, k.change(0, 0), k.status()
    k.call("potrf", "U" if attributes.lower else "L", n, factor, n, status)
    real, parts = k.real.text, 2 if k.element.is_complex else 1
    k.add(f"failed = to_i64(peek_i32({status}, 0)) != 0")
    with k.block(f"for r in range({n}):"):
        k.add(f"pivot = peek_{real}({factor}, r * {(n + 1) * parts})")
        k.add("failed = failed | (pivot != pivot)")
    with k.block("if failed:"):
        k.fill(k.element, factor, n * n, "nan")
    with k.block("else:"):
        first, last = ("(r + 1)", n) if attributes.lower else ("0", "r")
        with (
            k.block(f"for r in range({n}):"),
            k.block(f"for c in range({first} * {parts}, {last} * {parts}):"),
        ):
            k.add(f"poke_{real}({factor}, r * {n * parts} + c, to_{real}(0))")
    return k.done(n**3)


def lower_triangular_solve(lowering: Lowering, i: HloInstruction) -> Tree:
    """The solutions in the place of a copy of the right sides."""
    a: TriangularSolveAttributes = i.attributes
    side, triangle = "L" if a.left_side else "R", "L" if a.lower else "U"
    diagonal = "U" if a.unit_diagonal else "N"
    return solve(lowering, i, side, triangle, _LETTER[a.transpose_a], diagonal)


def solve(
    lowering: Lowering, i: HloInstruction, side: str, triangle: str, transpose: str, diagonal: str
) -> Tree:
    """Solutions with triangles, the first operand; the letters are those of BLAS."""
    k = MatrixKernel(lowering, i)
    if not i.shape.element_count:
        return k.result
    m, n = i.shape.dimensions[-2:]
    one = k.room(k.element, 1)
    k.fill(k.element, one, 1, f"to_{k.real.text}(1)")
    options = _OTHER_SIDE[side], OTHER_TRIANGLE[triangle], transpose, diagonal
    k.call("trsm", *options, n, m, one, k.read(0), k.rows, k.change(0, 1), n)
    return k.done(m * n * k.rows)


LINEAR_ALGEBRA_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {Opcode.CHOLESKY: lower_cholesky, Opcode.TRIANGULAR_SOLVE: lower_triangular_solve}
)
