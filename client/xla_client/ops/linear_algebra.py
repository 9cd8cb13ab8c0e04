"""Factorisations, solvers and transforms. Semantics: XLA's Cholesky, TriangularSolve, Fft."""

from xla_client.coercion.records import choice
from xla_client.programs.builder import Dimensions, Op, integers
from xla_client.programs.checked import Choice, checked
from xla_contract.ops.linear_algebra.cholesky import CholeskyAttributes
from xla_contract.ops.linear_algebra.fft import FftAttributes, FftType
from xla_contract.ops.linear_algebra.triangular_solve import Transpose, TriangularSolveAttributes
from xla_contract.types.opcode import Opcode


@checked
def cholesky(a: Op, lower: bool = True) -> Op:
    """The triangular factor of symmetric positive definite matrices.

    Args:
        a: Matrices in the last two dimensions.
        lower: Whether to read and to give lower triangles.

    Returns:
        The factors.

    Example:
        >>> a = Builder("example").parameter(0, "f32[3,3]")
        >>> ops.cholesky(a)
        %cholesky.2: f32[3,3]

    See https://openxla.org/xla/operation_semantics#cholesky
    """
    return a.builder.instruction(Opcode.CHOLESKY, [a], CholeskyAttributes(lower))


@checked
def triangular_solve(
    a: Op,
    b: Op,
    left_side: bool = True,
    lower: bool = True,
    unit_diagonal: bool = False,
    transpose_a: Transpose | Choice = Transpose.NO_TRANSPOSE,
) -> Op:
    """The solution x of op(a) x = b, or of x op(a) = b, for triangular matrices a.

    Args:
        a: Triangular matrices.
        b: The right sides.
        left_side: Whether `a` stands on the left.
        lower: Whether `a` has a lower triangle.
        unit_diagonal: Whether the diagonal of `a` counts as ones.
        transpose_a: "no_transpose", "transpose" or "adjoint".

    Returns:
        The solutions, of the shape of `b`.

    Raises:
        InvalidArgumentError: `transpose_a` is none of the names.

    Example:
        >>> a = Builder("example").parameter(0, "f32[3,3]")
        >>> ops.triangular_solve(a, a, lower=False)
        %triangular-solve.2: f32[3,3]

    See https://openxla.org/xla/operation_semantics#triangularsolve
    """
    form = choice(Transpose, "transpose_a", transpose_a)
    attributes = TriangularSolveAttributes(left_side, lower, unit_diagonal, form)
    return a.builder.instruction(Opcode.TRIANGULAR_SOLVE, [a, b], attributes)


@checked
def fft(operand: Op, fft_type: FftType | Choice, fft_length: Dimensions) -> Op:
    """The discrete Fourier transform over the last `len(fft_length)` dimensions.

    Args:
        operand: An array.
        fft_type: "fft", "ifft", "rfft" or "irfft".
        fft_length: The lengths of the last one to three dimensions, on the side of the signal.

    Returns:
        The transforms.

    Raises:
        InvalidArgumentError: The name of the transform is unknown.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,8]")
        >>> ops.fft(x, "rfft", 8)
        %fft.2: c64[2,5]

    See https://openxla.org/xla/operation_semantics#fft
    """
    attributes = FftAttributes(choice(FftType, "fft_type", fft_type), integers(fft_length))
    return operand.builder.instruction(Opcode.FFT, [operand], attributes)
