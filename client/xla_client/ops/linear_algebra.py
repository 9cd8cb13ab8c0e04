"""Factorisations, solvers and transforms. Semantics: XLA's Cholesky, TriangularSolve, Fft."""

from collections.abc import Sequence

from xla_client.builder import Op, integers
from xla_contract.opcode import Opcode
from xla_contract.ops.cholesky import CholeskyAttributes
from xla_contract.ops.fft import FftAttributes, FftType
from xla_contract.ops.triangular_solve import Transpose, TriangularSolveAttributes


def cholesky(a: Op, lower: bool = True) -> Op:
    """The triangular factor of symmetric positive definite matrices."""
    return a.builder.instruction(Opcode.CHOLESKY, [a], CholeskyAttributes(lower))


def triangular_solve(
    a: Op,
    b: Op,
    left_side: bool = True,
    lower: bool = True,
    unit_diagonal: bool = False,
    transpose_a: Transpose = Transpose.NO_TRANSPOSE,
) -> Op:
    """x of op(a) x = b, or of x op(a) = b, for triangular matrices a."""
    attributes = TriangularSolveAttributes(left_side, lower, unit_diagonal, transpose_a)
    return a.builder.instruction(Opcode.TRIANGULAR_SOLVE, [a, b], attributes)


def fft(operand: Op, fft_type: FftType, fft_length: Sequence[int]) -> Op:
    """The discrete Fourier transform over the last `len(fft_length)` dimensions."""
    attributes = FftAttributes(FftType(fft_type), integers(fft_length))
    return operand.builder.instruction(Opcode.FFT, [operand], attributes)
