"""Arrays reduced, mapped and sorted by computations on scalars.

Semantics: XLA's Reduce, Map, Sort and TopK. A computation is a Computation or a function of Ops,
which may use constants of the program around it.
"""

from xla_client.ops.reduction.initial_values import initial_values
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.builder import (
    Dimensions,
    Op,
    Operands,
    Values,
    as_sequence,
    builder_of,
    errors_at,
    integers,
)
from xla_client.programs.functions import scalar_computation
from xla_contract.ops.elementwise.map import MapAttributes
from xla_contract.ops.indexing.sort import SortAttributes
from xla_contract.ops.indexing.topk import TopKAttributes
from xla_contract.ops.reduction.reduce import ReduceAttributes
from xla_contract.types.opcode import Opcode


@checked
def reduce(
    operands: Operands,
    init_values: Values,
    computation: ComputationLike,
    dimensions_to_reduce: Dimensions,
) -> Op:
    """The elements along some dimensions combined by an associative computation.

    Args:
        operands: An array, or several of equal dimensions in a sequence, reduced together.
        init_values: A scalar for each operand, from which the reduction starts; numbers take the
            operand's element type.
        computation: A Computation or a function of scalars: (accumulator, value) to accumulator,
            or (accumulators ..., values ...) to a tuple of accumulators. Its order is not defined.
        dimensions_to_reduce: The dimensions that the result does not have, from 0.

    Returns:
        The reduced array; a tuple of them for several operands.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.reduce(x, 0.0, lambda total, each: total + each, 1)
        %reduce.3: f32[2]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    arrays = as_sequence(operands)
    builder = builder_of(*arrays)
    with errors_at(Opcode.REDUCE):
        initial = initial_values(arrays, init_values)
        reducer = scalar_computation(
            computation, builder, [each.shape for each in (*initial, *arrays)], "computation"
        )
    attributes = ReduceAttributes(integers(dimensions_to_reduce))
    return builder.instruction(Opcode.REDUCE, [*arrays, *initial], attributes, [reducer])


@checked
def reduce_all(operands: Operands, init_values: Values, computation: ComputationLike) -> Op:
    """All elements combined by an associative computation, as by `reduce`.

    Args:
        operands: An array, or several of equal dimensions in a sequence, reduced together.
        init_values: A scalar for each operand, from which the reduction starts; numbers take the
            operand's element type.
        computation: A Computation or a function of scalars: (accumulators ..., values ...) to
            accumulators.

    Returns:
        A scalar; a tuple of them for several operands.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.reduce_all(x, 0.0, ops.max)
        %reduce.3: f32[]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    arrays = as_sequence(operands)
    builder_of(*arrays)
    return reduce(arrays, init_values, computation, range(arrays[0].shape.rank))


@checked
def map(
    operands: Operands, computation: ComputationLike, dimensions: Dimensions | None = None
) -> Op:
    """A computation on scalars applied to the elements at each index.

    Args:
        operands: An array, or several of equal dimensions in a sequence.
        computation: A Computation or a function of one scalar of each operand.
        dimensions: All dimensions of the operands, in order, which is the default.

    Returns:
        The results, of the operands' dimensions.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.map(x, lambda each: each * 2 + 1)
        %map.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#map
    """
    arrays = as_sequence(operands)
    builder = builder_of(*arrays)
    if dimensions is None:
        dimensions = range(arrays[0].shape.rank)
    with errors_at(Opcode.MAP):
        mapped = scalar_computation(
            computation, builder, [each.shape for each in arrays], "computation"
        )
    attributes = MapAttributes(integers(dimensions))
    return builder.instruction(Opcode.MAP, arrays, attributes, [mapped])


@checked
def sort(
    operands: Operands,
    comparator: ComputationLike,
    dimension: int = -1,
    is_stable: bool = False,
) -> Op:
    """The elements sorted along one dimension, by default the last.

    Args:
        operands: An array, or several of equal dimensions in a sequence, sorted together.
        comparator: A Computation or a function of scalars: two of the first operand, two of the
            second and so on. It returns pred[], true if the first of each pair come first.
        dimension: The dimension to sort along; a negative number counts from the end.
        is_stable: Whether equal elements keep their order.

    Returns:
        The sorted array; a tuple of them for several operands.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.sort(x, lambda one, other: one.gt(other))
        %sort.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#sort
    """
    arrays = as_sequence(operands)
    builder = builder_of(*arrays)
    with errors_at(Opcode.SORT):
        number = arrays[0].shape.dimension_number(dimension)
        shapes = [each.shape for each in arrays for _ in range(2)]
        compared = scalar_computation(comparator, builder, shapes, "comparator")
    attributes = SortAttributes(number, is_stable)
    return builder.instruction(Opcode.SORT, arrays, attributes, [compared])


@checked
def top_k(operand: Op, k: int, largest: bool = True) -> Op:
    """The k largest or smallest elements along the last dimension, and their indices.

    Args:
        operand: An array.
        k: The number of elements.
        largest: Whether to take the largest elements, or the smallest.

    Returns:
        A tuple of the elements, the largest (or the smallest) first, and their s32 indices.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.top_k(x, 2)
        %topk.2: (f32[2,2], s32[2,2])

    See https://openxla.org/xla/operation_semantics#topk
    """
    return operand.builder.instruction(Opcode.TOPK, [operand], TopKAttributes(k, largest))
