"""Windows that slide over arrays. Semantics: XLA's ReduceWindow and SelectAndScatter."""

from xla_client.ops.reduction.initial_values import initial_values
from xla_client.programs.arguments.checked import checked, renamed
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.arguments.windows import PaddingLike, amounts_of, make_window
from xla_client.programs.builder import (
    Dimensions,
    Op,
    Operands,
    Values,
    as_sequence,
    builder_of,
    errors_at,
    integers,
    promoted,
)
from xla_client.programs.functions import scalar_computation
from xla_contract.ops.reduction.reduce_window import ReduceWindowAttributes
from xla_contract.ops.reduction.select_and_scatter import SelectAndScatterAttributes
from xla_contract.types.opcode import Opcode


@checked
def reduce_window(
    operands: Operands,
    init_values: Values,
    computation: ComputationLike,
    window_dimensions: Dimensions,
    window_strides: Dimensions,
    padding: PaddingLike,
) -> Op:
    """The elements of each window combined by an associative computation.

    Args:
        operands: An array, or several of equal dimensions in a sequence, reduced together.
        init_values: A scalar for each operand, which is also the value of the padding; numbers take
            the operand's element type.
        computation: A Computation or a function of scalars: (accumulators ..., values ...) to
            accumulators.
        window_dimensions: The size of the window in each dimension.
        window_strides: The step of the window in each dimension.
        padding: "same", "valid", or (low, high) per dimension.

    Returns:
        An array with an element for each window; a tuple of them for several operands.

    Raises:
        InvalidArgumentError: A number does not fit the operand, or a text is no padding.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.reduce_window(x, 0.0, ops.add, (1, 2), (1, 1), "same")
        %reduce-window.3: f32[2,3]

    See https://openxla.org/xla/operation_semantics#reducewindow
    """
    return reduce_window_with_general_padding(
        operands, init_values, computation, window_dimensions, window_strides, padding=padding
    )


@checked
def reduce_window_with_general_padding(
    operands: Operands,
    init_values: Values,
    computation: ComputationLike,
    window_dimensions: Dimensions,
    window_strides: Dimensions,
    base_dilations: Dimensions | None = None,
    window_dilations: Dimensions | None = None,
    padding: PaddingLike | None = None,
) -> Op:
    """The elements of each window combined as by `reduce_window`, with dilations.

    Args:
        operands: An array, or several of equal dimensions in a sequence, reduced together.
        init_values: A scalar for each operand, which is also the value of the padding; numbers take
            the operand's element type.
        computation: A Computation or a function of scalars: (accumulators ..., values ...) to
            accumulators.
        window_dimensions: The size of the window in each dimension.
        window_strides: The step of the window in each dimension.
        base_dilations: The distance of the operand's elements in each dimension; 1 by default.
        window_dilations: The distance of the window's elements in each dimension; 1 by default.
        padding: "same", "valid", or (low, high) per dimension; none by default.

    Returns:
        An array with an element for each window; a tuple of them for several operands.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.reduce_window_with_general_padding(x, 0.0, ops.add, (1, 2), (1, 1))
        %reduce-window.3: f32[2,2]

    See https://openxla.org/xla/operation_semantics#reducewindow
    """
    arrays = as_sequence(operands)
    builder = builder_of(*arrays)
    sizes, strides = integers(window_dimensions), integers(window_strides)
    base_spacing, spacing = _optional(base_dilations), _optional(window_dilations)
    with errors_at(Opcode.REDUCE_WINDOW):
        base = arrays[0].shape.dimensions
        pairs = amounts_of(padding, base, sizes, strides, base_spacing, spacing)
        window = make_window(sizes, strides, pairs, base_spacing, spacing)
        initial = initial_values(arrays, init_values)
        reducer = scalar_computation(
            computation, builder, [each.shape for each in (*initial, *arrays)], "computation"
        )
    attributes = ReduceWindowAttributes(window)
    everything = [*arrays, *initial]
    return builder.instruction(Opcode.REDUCE_WINDOW, everything, attributes, [reducer])


@checked
def select_and_scatter(
    operand: Op,
    select: ComputationLike,
    window_dimensions: Dimensions,
    window_strides: Dimensions,
    padding: PaddingLike,
    source: Op,
    init_value: Op | Scalar,
    scatter: ComputationLike,
) -> Op:
    """Each element of `source` added, by `scatter`, to the element that its window selects.

    It is the gradient of a maximum pool if `select` is `ops.ge` and `scatter` is `ops.add`.

    Args:
        operand: An array.
        select: A function of two scalars of the operand that returns pred[]: true for the first.
        window_dimensions: The size of the window in each dimension.
        window_strides: The step of the window in each dimension.
        padding: "same", "valid", or (low, high) per dimension.
        source: An array with an element for each window.
        init_value: The value of elements that no window selects, from which the others start; a
            number takes the operand's element type.
        scatter: An associative function of two scalars: the value so far and one of `source`.

    Returns:
        The combined elements, of the operand's shape.

    Raises:
        InvalidArgumentError: A number does not fit the operand, or a text is no padding.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.select_and_scatter(x, ops.ge, 3, 3, "valid", x[:1], 0.0, ops.add)
        %select-and-scatter.4: f32[3]

    See https://openxla.org/xla/operation_semantics#selectandscatter
    """
    builder = operand.builder
    sizes, strides = integers(window_dimensions), integers(window_strides)
    with errors_at(Opcode.SELECT_AND_SCATTER):
        pairs = amounts_of(padding, operand.shape.dimensions, sizes, strides)
        window = make_window(sizes, strides, pairs)
        initial = promoted(builder, init_value, operand.shape)
        called = [
            scalar_computation(select, builder, [operand.shape] * 2, "select"),
            scalar_computation(scatter, builder, [operand.shape] * 2, "scatter"),
        ]
    attributes = SelectAndScatterAttributes(window)
    operands = [operand, source, initial]
    return builder.instruction(Opcode.SELECT_AND_SCATTER, operands, attributes, called)


select_and_scatter_with_general_padding = renamed(
    select_and_scatter, "select_and_scatter_with_general_padding"
)
"""`select_and_scatter` under XlaBuilder's other name."""


def _optional(numbers: Dimensions | None) -> tuple[int, ...] | None:
    return None if numbers is None else integers(numbers)
