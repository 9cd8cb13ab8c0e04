"""Factorisations, solvers and transforms. Semantics: XLA's Cholesky, TriangularSolve, Fft."""

from xla_client.coercion.records import choice
from xla_client.programs.arguments.checked import Choice, checked
from xla_client.programs.builder import Dimensions, Op, integers
from xla_contract.ops.linear_algebra.cholesky import CholeskyAttributes
from xla_contract.ops.linear_algebra.fft import FftAttributes, FftType
from xla_contract.ops.linear_algebra.triangular_solve import Transpose, TriangularSolveAttributes
from xla_contract.types.opcode import Opcode


@checked
def cholesky(a: Op, lower: bool = True) -> Op:
    """The triangular Cholesky factors of Hermitian positive definite matrices.

    A factor l satisfies a = l lᴴ, or a = lᴴ l if it is upper. A matrix that is not positive
    definite gives NaN.

    Args:
        a: Square matrices in the last two dimensions, of a floating or complex type.
        lower: Whether to read the lower triangles and return lower factors, or upper ones.

    Returns:
        The factors, of the shape of `a`.

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

    op(a) is a, its transpose or its conjugate transpose, as `transpose_a` says. The other triangle
    of `a` is not read.

    Args:
        a: [..., n, n] matrices of a floating or complex type.
        b: The right sides, [..., n, k]; [..., k, n] if not `left_side`.
        left_side: Whether to solve op(a) x = b, and not x op(a) = b.
        lower: Whether to read the lower triangles of `a`, or the upper ones.
        unit_diagonal: Whether the diagonal of `a` is taken for ones and not read.
        transpose_a: "no_transpose", "transpose" or "adjoint" (the conjugate transpose).

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
        operand: An array of c64 or c128; of f32 or f64 for "rfft".
        fft_type: "fft", "ifft", "rfft" or "irfft"; the inverse transforms divide by the number of
            elements.
        fft_length: The sizes of the last one to three dimensions of the signal: of the operand, or
            for "irfft" of the result.

    Returns:
        The transforms: complex, or real for "irfft". "rfft" keeps n // 2 + 1 of the last n
            elements, which "irfft" takes.

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
