"""gather: slices of an operand taken at many start indices.

Semantics: XLA's Gather with operand batching dimensions. Start indices are clamped so that each
slice lies inside the operand.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Record, Repeated, Scalar
from xla_contract.ops.signature import check_distinct, check_sorted, require_array
from xla_contract.types.dimension_numbers import GatherDimensionNumbers
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class GatherAttributes:
    """`indices_are_sorted` promises an order and does not change the result."""

    dimension_numbers: Annotated[
        GatherDimensionNumbers, Record("gather_dimension_numbers", GatherDimensionNumbers)
    ]
    slice_sizes: Annotated[tuple[int, ...], Repeated("gather_slice_sizes")]
    indices_are_sorted: Annotated[bool, Scalar("indices_are_sorted")] = False


def infer_gather(operands: Sequence[Shape], attributes: GatherAttributes) -> Shape:
    """Offset dimensions of each slice among the batch dimensions of the start indices."""
    operand, indices = operands
    require_array(operand, "the operand")
    numbers, sizes = attributes.dimension_numbers, attributes.slice_sizes
    batch = batch_sizes(indices, numbers.index_vector_dim)
    check_distinct(
        "collapsed and batching dimensions",
        (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims),
        operand.rank,
        operand,
    )
    check_sorted("collapsed_slice_dims", numbers.collapsed_slice_dims, operand)
    check_sorted("operand_batching_dims", numbers.operand_batching_dims, operand)
    batching = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    mapped = numbers.start_index_map
    check_indices(operand, indices, numbers.index_vector_dim, "start_index_map", mapped, *batching)
    if len(sizes) != operand.rank or any(
        not 0 <= size <= limit for size, limit in zip(sizes, operand.dimensions, strict=False)
    ):
        raise ShapeError(
            "slice_sizes must have one size per operand dimension and fit in it, got "
            f"{{{','.join(map(str, sizes))}}} for {operand}"
        )
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    if any(sizes[number] > 1 for number in dropped):
        raise ShapeError(
            "slices must have size 1 or 0 in collapsed and batching dimensions, got "
            f"{{{','.join(map(str, sizes))}}} for {operand}"
        )
    offsets = [number for number in range(operand.rank) if number not in dropped]
    rank = len(batch) + len(numbers.offset_dims)
    check_distinct("offset_dims", numbers.offset_dims, rank, operand)
    if len(offsets) != len(numbers.offset_dims) or list(numbers.offset_dims) != sorted(
        numbers.offset_dims
    ):
        raise ShapeError(
            f"offset_dims must be sorted and one for each kept slice dimension, got "
            f"{{{','.join(map(str, numbers.offset_dims))}}} for {len(offsets)} kept of {operand}"
        )
    # A whole dynamic dimension stays dynamic; a part of one has the requested size.
    kept = [
        (sizes[n], operand.is_dynamic(n) and sizes[n] == operand.dimensions[n]) for n in offsets
    ]
    places = [n for n in range(indices.rank) if n != numbers.index_vector_dim]
    counted = [(indices.dimensions[n], indices.is_dynamic(n)) for n in places]
    of_batch, of_offsets = iter(counted), iter(kept)
    result = [
        next(of_offsets) if number in numbers.offset_dims else next(of_batch)
        for number in range(rank)
    ]
    return operand.with_dimensions([size for size, _ in result], [flag for _, flag in result])


def batch_sizes(indices: Shape, index_vector_dim: int) -> tuple[int, ...]:
    """Return the sizes of an index array without its index vector dimension.

    Raises:
        ShapeError: The indices are not integers, or have no such dimension.
    """
    if not indices.is_array or not indices.element_type.is_integer:
        raise ShapeError(f"indices must be integers, got {indices}")
    if not 0 <= index_vector_dim <= indices.rank:
        raise ShapeError(
            f"index_vector_dim must be in range [0, {indices.rank}], got {index_vector_dim} for "
            f"{indices}"
        )
    sizes = indices.dimensions
    return (*sizes[:index_vector_dim], *sizes[index_vector_dim + 1 :])


def check_indices(
    operand: Shape,
    indices: Shape,
    index_vector_dim: int,
    name: str,
    mapped: Sequence[int],
    of_operand: Sequence[int],
    of_indices: Sequence[int],
) -> None:
    """Raise ShapeError unless index vectors fit the mapped dimensions and batching ones pair up."""
    check_distinct(f"{name} and batching dimensions", (*mapped, *of_operand), operand.rank, operand)
    scalar = index_vector_dim == indices.rank
    width = 1 if scalar else indices.dimensions[index_vector_dim]
    if width != len(mapped):
        raise ShapeError(
            f"{name} must have one entry per entry of an index vector, got "
            f"{{{','.join(map(str, mapped))}}} for vectors of {width} in dim {index_vector_dim} "
            f"of {indices}"
        )
    check_distinct("batching dimensions of indices", of_indices, indices.rank, indices)
    if index_vector_dim in of_indices or len(of_operand) != len(of_indices):
        raise ShapeError(
            "batching dimensions must pair up and not be the index vector, got "
            f"{{{','.join(map(str, of_operand))}}} of {operand} and "
            f"{{{','.join(map(str, of_indices))}}} of {indices}"
        )
    for mine, theirs in zip(of_operand, of_indices, strict=True):
        if operand.dimensions[mine] != indices.dimensions[theirs]:
            raise ShapeError(
                f"batching dimensions must have equal size, got operand dim {mine} = "
                f"{operand.dimensions[mine]} of {operand} and indices dim {theirs} = "
                f"{indices.dimensions[theirs]} of {indices}"
            )
