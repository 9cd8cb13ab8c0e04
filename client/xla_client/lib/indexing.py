"""Elements chosen by arrays of indices along one dimension, and slices with steps.

Indices that are out of range are moved to the edge where elements are read, and dropped where
they are written, as `ops.gather` and `ops.scatter` do.
"""

from xla_client import ops
from xla_client.lib import constants
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.builder import Dimensions, Op, Operands, as_sequence, integers
from xla_contract.errors import ShapeError
from xla_contract.types.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from xla_contract.types.element_type import ElementType


@checked
def torch_gather(operand: Op, index: Op, dimension: int) -> Op:
    """The element along a dimension that each index selects.

    For rank 2 and dimension 0: result[i][j] = operand[index[i][j]][j]. Indices out of range are
    moved to the edge.

    Args:
        operand: An array.
        index: An array of integers, of the operand's rank and no larger in the other dimensions.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The elements, of the index's dimensions.

    Raises:
        ShapeError: The index does not fit the operand.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[5,3]"), b.parameter(1, "s32[2,3]")
        >>> lib.indexing.torch_gather(x, n, 0)
        %gather.7: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    number = _checked("torch_gather", operand, index, dimension)
    if not index.shape.element_count:
        # With an empty operand the gather would be refused, as its slices have one element.
        return constants.zeros(
            operand.builder, operand.shape.with_dimensions(index.shape.dimensions)
        )
    rank = operand.shape.rank
    numbers = GatherDimensionNumbers(
        collapsed_slice_dims=tuple(range(rank)),
        start_index_map=tuple(range(rank)),
        index_vector_dim=rank,
    )
    return ops.gather(operand, _index_vectors(index, number), numbers, [1] * rank)


@checked
def torch_scatter_dense(
    operand: Op, index: Op, source: Op, dimension: int, combiner: ComputationLike
) -> Op:
    """The operand with each element of `source` combined into the element `torch_gather` reads.

    Indices out of range are left out.

    Args:
        operand: An array.
        index: An array of integers, of the operand's rank and no larger in the other dimensions.
        source: An array of the index's dimensions.
        dimension: The dimension; a negative number counts from the end.
        combiner: A function of the current element and the update, two scalars, whose result must
            not depend on the order of several updates of one element; or a Computation.

    Returns:
        The updated operand.

    Raises:
        ShapeError: The index does not fit the operand, or the source not the index.

    Example:
        >>> b = Builder("example")
        >>> x, n, y = b.parameter(0, "f32[5]"), b.parameter(1, "s32[2]"), b.parameter(2, "f32[2]")
        >>> lib.indexing.torch_scatter_dense(x, n, y, 0, ops.add)
        %scatter.6: f32[5]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    number = _checked("torch_scatter_dense", operand, index, dimension)
    if source.shape.dimensions != index.shape.dimensions:
        raise ShapeError(
            f"there must be one index for each source, got {index.shape} and {source.shape}"
        ).at("torch_scatter_dense")
    rank = operand.shape.rank
    numbers = ScatterDimensionNumbers(
        inserted_window_dims=tuple(range(rank)),
        scatter_dims_to_operand_dims=tuple(range(rank)),
        index_vector_dim=rank,
    )
    return ops.scatter(operand, _index_vectors(index, number), source, combiner, numbers)


@checked
def torch_index_select(operand: Op, index: Op, dimension: int, batch_dimensions: int = 0) -> Op:
    """The slices of the operand at each index along a dimension.

    The index's dimensions after the batch take the position of `dimension` in the result.

    Args:
        operand: An array.
        index: An array of integers; those out of range are moved to the edge.
        dimension: The dimension; a negative number counts from the end.
        batch_dimensions: The number of leading dimensions that operand and index share.

    Returns:
        The slices.

    Raises:
        ShapeError: The batch dimensions differ or do not stand before `dimension`.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[5,3]"), b.parameter(1, "s32[2]")
        >>> lib.indexing.torch_index_select(x, n, 0)
        %gather.3: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    number = operand.shape.dimension_number(dimension)
    rank, index_rank = operand.shape.rank, index.shape.rank
    batch = range(batch_dimensions)
    if (
        not 0 <= batch_dimensions <= min(number, index_rank)
        or operand.shape.dimensions[:batch_dimensions] != index.shape.dimensions[:batch_dimensions]
    ):
        raise ShapeError(
            "the batch dimensions must be equal and stand before the one selected from, got "
            f"{batch_dimensions} of {operand.shape} at dim {number} and of {index.shape}"
        ).at("torch_index_select")
    sizes = [1 if each in batch else size for each, size in enumerate(operand.shape.dimensions)]
    sizes[number] = min(1, sizes[number])
    taken = index_rank - batch_dimensions
    numbers = GatherDimensionNumbers(
        offset_dims=(*range(batch_dimensions, number), *range(number + taken, rank - 1 + taken)),
        collapsed_slice_dims=(number,),
        start_index_map=(number,),
        index_vector_dim=index_rank,
        operand_batching_dims=tuple(batch),
        start_indices_batching_dims=tuple(batch),
    )
    return ops.gather(operand, index, numbers, sizes)


@checked
def dynamic_strided_slice(
    operand: Op, starts: Operands, window_sizes: Dimensions, strides: Dimensions
) -> Op:
    """The elements at every stride in a window that begins at computed indices.

    Args:
        operand: An array.
        starts: A scalar integer for each dimension; the window is moved to lie inside the operand.
        window_sizes: The size of the window in each dimension.
        strides: The step in each dimension.

    Returns:
        The elements.

    Raises:
        ShapeError: The window does not fit the operand, or a stride is not positive.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[8]"), b.parameter(1, "s32[]")
        >>> lib.indexing.dynamic_strided_slice(x, [n], [4], [2])
        %slice.4: f32[2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    starts = as_sequence(starts)
    window_sizes = integers(window_sizes)
    strides = integers(strides)
    window = ops.dynamic_slice(operand, starts, window_sizes)
    return ops.slice(window, [0] * operand.shape.rank, window_sizes, strides)


def _checked(function: str, operand: Op, index: Op, dimension: int) -> int:
    number = operand.shape.dimension_number(dimension)
    pairs = list(zip(index.shape.dimensions, operand.shape.dimensions, strict=False))
    if index.shape.rank != operand.shape.rank or any(
        low > high for each, (low, high) in enumerate(pairs) if each != number
    ):
        raise ShapeError(
            "the index must have the operand's rank and be no larger in other dimensions than "
            f"{number}, got {index.shape} for {operand.shape}"
        ).at(function)
    return number


def _index_vectors(index: Op, number: int) -> Op:
    """Return the whole index vector of each element, as a new last dimension."""
    if index.shape.element_type.bit_width < 32:
        # A narrow type may not count the other dimensions.
        index = ops.convert_element_type(index, ElementType.S32)
    shape = index.shape
    columns = [
        index if each == number else constants.iota_like(index, each, shape.element_type)
        for each in range(shape.rank)
    ]
    deep = (*shape.dimensions, 1)
    return ops.concat_in_dim([ops.reshape(each, deep) for each in columns], shape.rank)
