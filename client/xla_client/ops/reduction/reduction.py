"""Arrays reduced, mapped and sorted by computations on scalars.

Semantics: XLA's Reduce, Map, Sort and TopK. A computation is a Computation or a function of Ops,
which may use constants of the program around it.
"""

from xla_client.ops.reduction.initial_values import initial_values
from xla_client.programs.builder import (
    Dimensions,
    Op,
    Operands,
    Values,
    as_sequence,
    builder_of,
    integers,
    placed,
)
from xla_client.programs.checked import checked
from xla_client.programs.functions import scalar_computation
from xla_client.programs.operands import ComputationLike
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
    """The operand reduced along dimensions by an associative computation (accumulator, value).

    Initial values that are numbers take the operand's element type. Several operands with one
    initial value each are reduced together by a computation (accumulators ..., values ...) and give
    a tuple.

    Args:
        operands: An Op, or several in a sequence.
        init_values: One value for each operand; numbers take its element type.
        computation: A Computation or a function: (accumulators ..., values ...) to accumulators.
        dimensions_to_reduce: The dimensions that go away.

    Returns:
        The reduced array, or a tuple of them.

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
    with placed(Opcode.REDUCE):
        initial = initial_values(arrays, init_values)
        reducer = scalar_computation(
            computation, builder, [each.shape for each in (*initial, *arrays)], "computation"
        )
    attributes = ReduceAttributes(integers(dimensions_to_reduce))
    return builder.instruction(Opcode.REDUCE, [*arrays, *initial], attributes, [reducer])


@checked
def reduce_all(operands: Operands, init_values: Values, computation: ComputationLike) -> Op:
    """The operand reduced along all dimensions, to a scalar.

    Args:
        operands: An Op, or several in a sequence.
        init_values: One value for each operand; numbers take its element type.
        computation: A Computation or a function: (accumulators ..., values ...) to accumulators.

    Returns:
        A scalar, or a tuple of scalars.

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
    """A computation on scalars applied at every index; the dimensions are all of them.

    Args:
        operands: An Op, or several in a sequence.
        computation: A Computation or a function of one scalar of each operand.
        dimensions: The dimensions of the operands, in order.

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
    with placed(Opcode.MAP):
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
    """The operands sorted together along one dimension, by default the last.

    The comparator takes two scalars of each operand in turn and says whether the first ones come
    before the second ones. Several operands give a tuple.

    Args:
        operands: An Op, or several in a sequence.
        comparator: A Computation or a function of two scalars of each operand that gives pred[].
        dimension: The dimension to sort along; negative numbers count from the end.
        is_stable: Whether equal elements keep their order.

    Returns:
        The sorted array, or a tuple of them.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.sort(x, lambda one, other: one.gt(other))
        %sort.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#sort
    """
    arrays = as_sequence(operands)
    builder = builder_of(*arrays)
    with placed(Opcode.SORT):
        number = arrays[0].shape.dimension_number(dimension)
        shapes = [each.shape for each in arrays for _ in range(2)]
        compared = scalar_computation(comparator, builder, shapes, "comparator")
    attributes = SortAttributes(number, is_stable)
    return builder.instruction(Opcode.SORT, arrays, attributes, [compared])


@checked
def top_k(operand: Op, k: int, largest: bool = True) -> Op:
    """A tuple of the k largest (or smallest) elements of the last dimension, and their indices.

    Args:
        operand: An array.
        k: The number of elements.
        largest: Whether the largest are wanted, or the smallest.

    Returns:
        A tuple of the elements, in order, and their s32 indices.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.top_k(x, 2)
        %topk.2: (f32[2,2], s32[2,2])

    See https://openxla.org/xla/operation_semantics#topk
    """
    return operand.builder.instruction(Opcode.TOPK, [operand], TopKAttributes(k, largest))
