"""Products of a large matrix with few vectors, bound by the time to read the matrix."""

import dataclasses

from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.target.pass_tuning import ThinDots

_TYPES = frozenset({ElementType.F32, ElementType.F64})


@dataclasses.dataclass(frozen=True, slots=True)
class ThinDot:
    """A product of a matrix with few vectors, the rows or columns of the other operand.

    Each vector has `count` results, sums of `depth` products. `is_right`: the matrix is the right
    operand. `is_inner`: sums go along its rows. `vectors_are_rows`: the elements of each vector are
    contiguous.
    """

    batch: int
    count: int
    vectors: int
    depth: int
    is_right: bool
    is_inner: bool
    vectors_are_rows: bool


def thin_dot(i: HloInstruction, tuning: ThinDots) -> ThinDot | None:
    """Return a canonical dot as a ThinDot; None if a kernel that packs is faster."""
    numbers = i.attributes.dimension_numbers
    lhs, rhs = (operand.shape for operand in i.operands)
    types = {lhs.element_type, rhs.element_type, i.shape.element_type}
    if len(types) > 1 or not types <= _TYPES:
        return None
    (left,), (right,) = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    rows, columns = i.shape.dimensions[-2:]
    across = [left == lhs.rank - 1, right == rhs.rank - 1]
    # The larger operand is the first choice, as the other one may be transposed.
    for is_right in (rows <= columns, rows > columns):
        is_inner, vectors_are_rows = across[::-1] if is_right else across
        count, vectors = (columns, rows) if is_right else (rows, columns)
        found = ThinDot(
            i.shape.dimensions[0] if numbers.lhs_batch_dimensions else 1,
            count,
            vectors,
            lhs.dimensions[left],
            is_right,
            is_inner,
            vectors_are_rows or vectors == 1,
        )
        if _is_faster(found, i.shape.element_type.byte_width, tuning):
            return found
    return None


def _is_faster(thin: ThinDot, width: int, tuning: ThinDots) -> bool:
    matrix = thin.count * thin.depth * width
    if matrix < tuning.min_matrix_bytes:
        return False
    if thin.is_inner:
        is_few = thin.vectors <= tuning.few_vectors
        least = tuning.min_inner_bytes_of_few if is_few else tuning.min_inner_bytes
        is_tall = thin.count >= tuning.min_rows_per_vector * thin.vectors
        is_ready = thin.vectors_are_rows or is_tall
        is_thin = thin.vectors <= tuning.max_inner_vectors
        return is_ready and is_thin and thin.depth * width >= least
    # Neighbouring sums are stored by one vector, so they must be contiguous in the result.
    is_contiguous = thin.is_right or thin.vectors == 1
    row = thin.count * width
    pieces = thin.batch * max(row // tuning.outer_piece_bytes, 1)
    is_shared = pieces >= tuning.min_outer_pieces or matrix <= tuning.max_undivided_bytes
    return (
        is_contiguous
        and is_shared
        and thin.vectors <= tuning.max_outer_vectors
        and row >= tuning.min_outer_bytes
    )
