"""Systems of linear equations, inverses and determinants, over batches of matrices."""

from xla_client import ops
from xla_client.lib import arithmetic, constants, indexing, loops, slicing
from xla_client.lib.factorizations import lu_decomposition, permutation_sign, square_dimensions
from xla_client.lib.matrix import get_matrix_diagonal
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.errors import ShapeError
from xla_contract.ops.linear_algebra.triangular_solve import Transpose
from xla_contract.types.element_type import ElementType


@checked
def solve(a: Op, b: Op) -> Op:
    """The solution x of a x = b, by LU factors with partial pivoting.

    Args:
        a: [..., n, n] matrices of f32, f64, c64 or c128.
        b: The right sides, [..., n, k].

    Returns:
        The solutions, of the shape of `b`.

    Raises:
        ShapeError: The operands do not fit each other, or are no matrices of such a type.

    Example:
        >>> b = Builder("example")
        >>> a, y = b.parameter(0, "f32[3,3]"), b.parameter(1, "f32[3,2]")
        >>> print(lib.solvers.solve(a, y).shape)
        f32[3,2]

    See https://openxla.org/xla/operation_semantics#triangularsolve
    """
    batch, size = square_dimensions("solve", a)
    _check_right_side("solve", a, b, (*batch, size))
    factors = lu_decomposition(a)
    order = ops.broadcast_in_dim(
        factors.permutation, b.shape.dimensions, range(factors.permutation.shape.rank)
    )
    permuted = indexing.torch_gather(b, order, -2)
    partial = ops.triangular_solve(factors.lu, permuted, lower=True, unit_diagonal=True)
    return ops.triangular_solve(factors.lu, partial, lower=False)


@checked
def cholesky_solve(factor: Op, b: Op, *, lower: bool = True) -> Op:
    """The solution x of a x = b where the Cholesky factor of a is known.

    Args:
        factor: Triangular [..., n, n] matrices, as `ops.cholesky` gives them for a.
        b: The right sides, [..., n, k].
        lower: Whether the factor is a lower triangle.

    Returns:
        The solutions, of the shape of `b`.

    Raises:
        ShapeError: The operands do not fit each other, or are no matrices of f32, f64, c64 or c128.

    Example:
        >>> b = Builder("example")
        >>> a, y = b.parameter(0, "f32[3,3]"), b.parameter(1, "f32[3,2]")
        >>> lib.solvers.cholesky_solve(ops.cholesky(a), y)
        %triangular-solve.5: f32[3,2]

    See https://openxla.org/xla/operation_semantics#triangularsolve
    """
    batch, size = square_dimensions("cholesky_solve", factor)
    _check_right_side("cholesky_solve", factor, b, (*batch, size))
    first, second = Transpose.NO_TRANSPOSE, Transpose.ADJOINT
    if not lower:
        first, second = second, first
    partial = ops.triangular_solve(factor, b, lower=lower, transpose_a=first)
    return ops.triangular_solve(factor, partial, lower=lower, transpose_a=second)


@checked
def inverse(a: Op) -> Op:
    """The inverses of [..., n, n] matrices; inf and NaN for singular ones.

    Args:
        a: Square matrices of f32, f64, c64 or c128.

    Returns:
        The inverses, of the shape of `a`.

    Raises:
        ShapeError: The matrices are not square, or not of such a type.

    Example:
        >>> a = Builder("example").parameter(0, "f32[3,3]")
        >>> print(lib.solvers.inverse(a).shape)
        f32[3,3]

    See https://openxla.org/xla/operation_semantics#triangularsolve
    """
    batch, size = square_dimensions("inverse", a)
    identity = constants.identity_matrix(a.builder, a.shape.element_type, size, size)
    return solve(a, ops.broadcast(identity, batch))


@checked
def determinant(a: Op) -> Op:
    """The determinants of [..., n, n] matrices.

    Args:
        a: Square matrices of f32, f64, c64 or c128.

    Returns:
        The determinants, without the last two dimensions.

    Raises:
        ShapeError: The matrices are not square, or not of such a type.

    Example:
        >>> a = Builder("example").parameter(0, "f32[5,3,3]")
        >>> print(lib.solvers.determinant(a).shape)
        f32[5]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/logdet.h
    """
    diagonal, sign = _pivots(a, "determinant")
    return arithmetic.prod(diagonal, [-1]) * sign


@checked
def slogdet(a: Op) -> tuple[Op, Op]:
    """The sign and the logarithm of the determinant, which may exceed the range of the type.

    The sign of a complex determinant has magnitude 1. A singular matrix gives 0 and -inf.

    Args:
        a: Square [..., n, n] matrices of f32, f64, c64 or c128.

    Returns:
        (sign, logarithm of the absolute value), the latter real.

    Raises:
        ShapeError: The matrices are not square, or not of such a type.

    Example:
        >>> a = Builder("example").parameter(0, "f32[5,3,3]")
        >>> sign, logarithm = lib.solvers.slogdet(a)
        >>> print(logarithm.shape)
        f32[5]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/logdet.h
    """
    diagonal, sign = _pivots(a, "slogdet")
    total = arithmetic.sum(ops.log(ops.abs(diagonal)), [-1])
    return arithmetic.prod(ops.sign(diagonal), [-1]) * sign, total


@checked
def logdet(a: Op) -> Op:
    """The logarithm of the determinant; NaN where a real one is negative.

    Args:
        a: Square [..., n, n] matrices of f32, f64, c64 or c128.

    Returns:
        The logarithms, without the last two dimensions.

    Raises:
        ShapeError: The matrices are not square, or not of such a type.

    Example:
        >>> a = Builder("example").parameter(0, "f32[5,3,3]")
        >>> print(lib.solvers.logdet(a).shape)
        f32[5]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/logdet.h
    """
    sign, logarithm = slogdet(a)
    return (
        logarithm + ops.log(sign)
        if not sign.shape.element_type.is_complex
        else (ops.complex(logarithm, constants.zeros_like(logarithm)) + ops.log(sign))
    )


@checked
def tridiagonal_solve(lower: Op, diagonal: Op, upper: Op, b: Op) -> Op:
    """The solution x of a x = b for tridiagonal matrices a.

    Row i of a has lower[i], diagonal[i] and upper[i]; lower[0] and upper[n-1] are not read.
    Thomas's algorithm does not pivot: a must be diagonally dominant or positive definite.

    Args:
        lower: The elements below the diagonal, [..., n].
        diagonal: The elements on the diagonal, [..., n].
        upper: The elements above the diagonal, [..., n].
        b: The right sides, [..., n, k].

    Returns:
        The solutions, of the shape of `b`.

    Raises:
        ShapeError: The diagonals differ in shape, or the right sides do not fit them.

    Example:
        >>> b = Builder("example")
        >>> d, y = b.parameter(0, "f32[4]"), b.parameter(1, "f32[4,2]")
        >>> print(lib.solvers.tridiagonal_solve(d, d, d, y).shape)
        f32[4,2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/tridiagonal.h
    """
    shape = diagonal.shape
    if not shape.rank or not lower.shape.compatible(shape) or not upper.shape.compatible(shape):
        raise ShapeError(
            "the diagonals must be arrays of one shape with a last dimension for the equations, "
            f"got {lower.shape}, {shape} and {upper.shape}"
        ).at("tridiagonal_solve")
    _check_right_side("tridiagonal_solve", diagonal, b, shape.dimensions)
    size = shape.dimensions[-1]
    if size < 2:
        return ops.div(b, diagonal, range(shape.rank)) if size else b
    pivots, reduced = _eliminated(lower, diagonal, upper, b)
    return _substituted(upper, pivots, reduced)


def _eliminated(lower: Op, diagonal: Op, upper: Op, b: Op) -> tuple[Op, Op]:
    """Return the diagonal and the right side after forward elimination of the lower elements."""

    def step(index: Op, state: list[Op]) -> list[Op]:
        lower, upper, pivots, right = state
        row = index + 1
        ratio = _at(lower, row) / _at(pivots, index)
        pivot = _at(pivots, row) - ratio * _at(upper, index)
        reduced = ops.sub(
            _row(right, row),
            ops.mul(_row(right, index), ratio, range(ratio.shape.rank)),
        )
        return [
            lower,
            upper,
            slicing.dynamic_update_index_in_dim(pivots, pivot, row, -1),
            slicing.dynamic_update_index_in_dim(right, reduced, row, -2),
        ]

    count = diagonal.shape.dimensions[-1] - 1
    initial = [lower, upper, diagonal, b]
    _, _, pivots, right = loops.for_each_index(count, step, initial, ElementType.S32)
    return pivots, right


def _substituted(upper: Op, pivots: Op, right: Op) -> Op:
    """Return the solution by back substitution, from the last row up."""
    last = pivots.shape.dimensions[-1] - 1

    def step(index: Op, state: list[Op]) -> list[Op]:
        upper, pivots, solved = state
        row = last - 1 - index
        below = _row(solved, row + 1)
        known = ops.mul(below, _at(upper, row), range(upper.shape.rank))
        pivot = _at(pivots, row)
        value = ops.div(ops.sub(_row(solved, row), known), pivot, range(pivot.shape.rank))
        return [upper, pivots, slicing.dynamic_update_index_in_dim(solved, value, row, -2)]

    bottom = slicing.index_in_dim(pivots, -1, -1)
    value = ops.div(slicing.index_in_dim(right, -1, -2), bottom, range(bottom.shape.rank))
    solved = slicing.update_slice_in_minor_dims(right, value, [last, 0])
    initial = [upper, pivots, solved]
    return loops.for_each_index(last, step, initial, ElementType.S32)[2]


def _at(diagonal: Op, index: Op) -> Op:
    """One element of every diagonal, [..., 1]."""
    return slicing.dynamic_index_in_dim(diagonal, index, -1)


def _row(right: Op, index: Op) -> Op:
    """One row of every right side, [..., 1, k]."""
    return slicing.dynamic_index_in_dim(right, index, -2)


def _pivots(a: Op, function: str) -> tuple[Op, Op]:
    """The diagonal of U, and the sign of the permutation."""
    square_dimensions(function, a)
    factors = lu_decomposition(a)
    sign = permutation_sign(factors.pivots, a.shape.element_type)
    return get_matrix_diagonal(factors.lu), sign


def _check_right_side(function: str, a: Op, b: Op, rows: tuple[int, ...]) -> None:
    if b.shape.dimensions[:-1] != rows or b.shape.element_type is not a.shape.element_type:
        raise ShapeError(
            "the right side must have the rows and the batch of the matrices and one more "
            f"dimension, got {b.shape} for {a.shape}"
        ).at(function)
