"""Matrices in the last two dimensions of arrays, the dimensions before them being a batch."""

from xla_client import ops
from xla_client.lib import arithmetic, constants
from xla_client.ops.contraction.contraction import batch_dot, matmul
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.errors import ShapeError
from xla_contract.types.shape import Shape

__all__ = [
    "batch_dot",
    "diagonal_mask",
    "get_matrix_diagonal",
    "lower_triangle",
    "matmul",
    "set_matrix_diagonal",
    "symmetrize",
    "trace",
    "transpose_in_minor_dims",
    "triangle_mask",
    "upper_triangle",
]


@checked
def transpose_in_minor_dims(operand: Op) -> Op:
    """The transposes of matrices.

    Args:
        operand: Matrices in the last two dimensions.

    Returns:
        The transposes.

    Raises:
        ShapeError: The operand has less than two dimensions.

    Example:
        >>> x = Builder("example").parameter(0, "f32[5,2,3]")
        >>> lib.matrix.transpose_in_minor_dims(x)
        %transpose.2: f32[5,3,2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    rank = _matrix_rank("transpose_in_minor_dims", operand)
    return ops.transpose(operand, (*range(rank - 2), rank - 1, rank - 2))


@checked
def triangle_mask(operand: Op, diagonal: int = 0) -> Op:
    """The mask of the elements on and below a diagonal.

    Args:
        operand: Matrices in the last two dimensions.
        diagonal: The number of the diagonal: 0 for the main one, 1 for the one above it, -1 below.

    Returns:
        pred: true where the column is at most the row plus `diagonal`.

    Raises:
        ShapeError: The operand has less than two dimensions.
        InvalidArgumentError: `diagonal` has more than 32 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.matrix.triangle_mask(x)
        %compare.7: pred[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    rank = _matrix_rank("triangle_mask", operand)
    rows = constants.iota_like(operand, rank - 2)
    return ops.ge(rows + diagonal, constants.iota_like(operand, rank - 1))


@checked
def lower_triangle(operand: Op, diagonal: int = 0) -> Op:
    """The elements on and below a diagonal, zeros elsewhere.

    Args:
        operand: Matrices in the last two dimensions.
        diagonal: The number of the diagonal: 0 for the main one, 1 for the one above it, -1 below.

    Returns:
        The triangles, of the operand's shape.

    Raises:
        ShapeError: The operand has less than two dimensions.
        InvalidArgumentError: The element type has no zero, or `diagonal` has more than 32 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.matrix.lower_triangle(x)
        %select.10: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    mask = triangle_mask(operand, diagonal)
    return ops.select(mask, operand, constants.zeros_like(operand))


@checked
def upper_triangle(operand: Op, diagonal: int = 0) -> Op:
    """The elements on and above a diagonal, zeros elsewhere.

    Args:
        operand: Matrices in the last two dimensions.
        diagonal: The number of the diagonal: 0 for the main one, 1 for the one above it, -1 below.

    Returns:
        The triangles, of the operand's shape.

    Raises:
        ShapeError: The operand has less than two dimensions.
        InvalidArgumentError: The element type has no zero, or `diagonal` has more than 32 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.matrix.upper_triangle(x)
        %select.10: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    mask = triangle_mask(operand, diagonal - 1)
    return ops.select(mask, constants.zeros_like(operand), operand)


@checked
def diagonal_mask(operand: Op, diagonal: int = 0) -> Op:
    """The mask of the elements on a diagonal.

    Args:
        operand: Matrices in the last two dimensions.
        diagonal: The number of the diagonal: 0 for the main one, 1 for the one above it, -1 below.

    Returns:
        pred: true where the column is the row plus `diagonal`.

    Raises:
        ShapeError: The operand has less than two dimensions.
        InvalidArgumentError: `diagonal` has more than 32 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.matrix.diagonal_mask(x)
        %compare.7: pred[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    rank = _matrix_rank("diagonal_mask", operand)
    rows = constants.iota_like(operand, rank - 2)
    return ops.eq(rows + diagonal, constants.iota_like(operand, rank - 1))


@checked
def get_matrix_diagonal(operand: Op, diagonal: int = 0) -> Op:
    """The elements of a diagonal of every matrix.

    Args:
        operand: Matrices in the last two dimensions.
        diagonal: The number of the diagonal: 0 for the main one, 1 for the one above it, -1 below.

    Returns:
        The elements, along one dimension instead of two; none for a diagonal outside the matrix.

    Raises:
        ShapeError: The operand has less than two dimensions.

    Example:
        >>> x = Builder("example").parameter(0, "f32[5,2,3]")
        >>> lib.matrix.get_matrix_diagonal(x)
        %slice.3: f32[5,2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    rank = _matrix_rank("get_matrix_diagonal", operand)
    columns = operand.shape.dimensions[-1]
    count = _diagonal_size(operand.shape, diagonal)
    start = diagonal if diagonal >= 0 else -diagonal * columns
    # In row-major order a diagonal is every (columns + 1)th element.
    flat = ops.collapse(operand, (rank - 2, rank - 1))
    if not count:
        return ops.slice_in_dim(flat, 0, 0, 1, -1)
    return ops.slice_in_dim(flat, start, start + (count - 1) * (columns + 1) + 1, columns + 1, -1)


@checked
def set_matrix_diagonal(operand: Op, values: Op, diagonal: int = 0) -> Op:
    """The matrices with other values on a diagonal.

    Args:
        operand: Matrices in the last two dimensions.
        values: The diagonals, of the shape that `get_matrix_diagonal` gives.
        diagonal: The number of the diagonal: 0 for the main one, 1 for the one above it, -1 below.

    Returns:
        The matrices, of the operand's shape.

    Raises:
        ShapeError: The values have another shape or type, or the operand has less than two
            dimensions.
        InvalidArgumentError: The element type has no zero.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,2,3]"), b.parameter(1, "f32[5,2]")
        >>> lib.matrix.set_matrix_diagonal(x, y)
        %select.12: f32[5,2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    rank = _matrix_rank("set_matrix_diagonal", operand)
    *batch, rows, columns = operand.shape.dimensions
    expected = operand.shape.with_dimensions((*batch, _diagonal_size(operand.shape, diagonal)))
    if values.shape.dimensions != expected.dimensions:
        raise ShapeError(
            f"values must be as many as diagonal {diagonal} of {operand.shape} has, {expected}, "
            f"got {values.shape}"
        ).at("set_matrix_diagonal")
    # Above the main diagonal the row counts its elements, below it the column does.
    size, along = (rows, rank - 2) if diagonal >= 0 else (columns, rank - 1)
    zero = constants.zero(operand.builder, values.shape.element_type)
    padded = ops.pad_in_dim(values, zero, -1, 0, size - expected.dimensions[-1])
    spread = ops.broadcast_in_dim(padded, operand.shape.dimensions, (*range(rank - 2), along))
    return ops.select(diagonal_mask(operand, diagonal), spread, operand)


@checked
def symmetrize(operand: Op, *, lower: bool = True) -> Op:
    """The Hermitian matrices made of one triangle.

    Imaginary parts on the diagonal are dropped.

    Args:
        operand: Square matrices in the last two dimensions.
        lower: Whether to read the lower triangle and not the upper one.

    Returns:
        The matrices, of the operand's shape.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3,3]")
        >>> lib.matrix.symmetrize(x)
        %select.9: f32[3,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    _matrix_rank("symmetrize", operand)
    rows, columns = operand.shape.dimensions[-2:]
    if rows != columns:
        raise ShapeError(f"the matrices must be square, got {operand.shape}").at("symmetrize")
    is_complex = operand.shape.element_type.is_complex
    mirrored = transpose_in_minor_dims(ops.conj(operand) if is_complex else operand)
    mask = triangle_mask(operand) if lower else ops.not_(triangle_mask(operand, -1))
    both = ops.select(mask, operand, mirrored)
    if not is_complex:
        return both
    real = ops.real(both)
    return ops.select(diagonal_mask(both), ops.complex(real, constants.zeros_like(real)), both)


@checked
def trace(operand: Op) -> Op:
    """The sum of the main diagonal of every matrix.

    Args:
        operand: Matrices in the last two dimensions.

    Returns:
        The sums, without those dimensions.

    Raises:
        ShapeError: The operand has less than two dimensions.
        InvalidArgumentError: The element type has no zero.

    Example:
        >>> x = Builder("example").parameter(0, "f32[5,3,3]")
        >>> lib.matrix.trace(x)
        %reduce.5: f32[5]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    return arithmetic.sum(get_matrix_diagonal(operand), [-1])


def _diagonal_size(shape: Shape, diagonal: int) -> int:
    rows, columns = shape.dimensions[-2:]
    return max(min(rows + min(diagonal, 0), columns - max(diagonal, 0)), 0)


def _matrix_rank(function: str, operand: Op) -> int:
    if operand.shape.rank < 2:
        raise ShapeError(f"an array of rank 2 or more is needed, got {operand.shape}").at(function)
    return operand.shape.rank
