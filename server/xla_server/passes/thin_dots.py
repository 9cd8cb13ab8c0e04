"""Products of a large matrix with few vectors, whose time is that of reading the matrix."""

import dataclasses

from xla_contract.element_type import ElementType
from xla_server.ir.module import HloInstruction

_TYPES = frozenset({ElementType.F32, ElementType.F64})

MAX_INNER_VECTORS = 48
"""Vectors up to which a matrix is multiplied along its rows without packing it."""

MAX_OUTER_VECTORS = 4
"""Vectors up to which a matrix is multiplied along its columns without packing it."""

MIN_MATRIX_BYTES = 1 << 16
"""Bytes of a matrix below which it stays in L1, and packing it costs little."""

MIN_INNER_BYTES = 1 << 9
"""Bytes of a row from which adding up partial sums costs less than packing the matrix."""

FEW_VECTORS = 8
MIN_INNER_BYTES_OF_FEW = 1 << 8
"""The same for at most `FEW_VECTORS`, where packing is more of the time."""

MIN_OUTER_BYTES = 1 << 8
"""Bytes of a row below which setting up its products takes longer than they do."""

OUTER_PIECE_BYTES = 1 << 9
MIN_OUTER_PIECES = 4
MAX_UNDIVIDED_BYTES = 1 << 20
"""A product along columns is divided into pieces of rows of at least `OUTER_PIECE_BYTES`.

A matrix of more than `MAX_UNDIVIDED_BYTES` has to have `MIN_OUTER_PIECES`, so that threads share
it. Others are divided along the sums, or are read by panels.
"""

MIN_ROWS_PER_VECTOR = 8
"""Rows of the matrix for each vector from which the vectors are worth transposing."""


@dataclasses.dataclass(frozen=True, slots=True)
class ThinDot:
    """A product of a matrix with few vectors, the rows or columns of the other operand.

    There are `count` results for each vector, sums of `depth` products. `is_right` tells that the
    matrix is the right operand, `is_inner` that its rows are summed along, `vectors_are_rows` that
    the elements of each vector are stored side by side.
    """

    batch: int
    count: int
    vectors: int
    depth: int
    is_right: bool
    is_inner: bool
    vectors_are_rows: bool


def thin_dot(i: HloInstruction) -> ThinDot | None:
    """Return how a canonical dot is multiplied without packing, None if another way is faster."""
    numbers = i.attributes.dimension_numbers
    lhs, rhs = (operand.shape for operand in i.operands)
    types = {lhs.element_type, rhs.element_type, i.shape.element_type}
    if len(types) > 1 or not types <= _TYPES:
        return None
    (left,), (right,) = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    rows, columns = i.shape.dimensions[-2:]
    is_right = rows <= columns
    across = [left == lhs.rank - 1, right == rhs.rank - 1]
    is_inner, vectors_are_rows = across[::-1] if is_right else across
    found = ThinDot(
        i.shape.dimensions[0] if numbers.lhs_batch_dimensions else 1,
        max(rows, columns),
        min(rows, columns),
        lhs.dimensions[left],
        is_right,
        is_inner,
        vectors_are_rows or min(rows, columns) == 1,
    )
    return found if _is_faster(found, i.shape.element_type.byte_width) else None


def _is_faster(thin: ThinDot, width: int) -> bool:
    matrix = thin.count * thin.depth * width
    if matrix < MIN_MATRIX_BYTES:
        return False
    if thin.is_inner:
        least = MIN_INNER_BYTES_OF_FEW if thin.vectors <= FEW_VECTORS else MIN_INNER_BYTES
        is_ready = thin.vectors_are_rows or thin.count >= MIN_ROWS_PER_VECTOR * thin.vectors
        return is_ready and thin.vectors <= MAX_INNER_VECTORS and thin.depth * width >= least
    # Neighbouring sums are stored together, so they have to be neighbours in the result.
    is_contiguous = thin.is_right or thin.vectors == 1
    row = thin.count * width
    is_shared = (
        thin.batch * (row // OUTER_PIECE_BYTES) >= MIN_OUTER_PIECES
        or thin.batch >= MIN_OUTER_PIECES
        or matrix <= MAX_UNDIVIDED_BYTES
    )
    return (
        is_contiguous and is_shared and thin.vectors <= MAX_OUTER_VECTORS and row >= MIN_OUTER_BYTES
    )
