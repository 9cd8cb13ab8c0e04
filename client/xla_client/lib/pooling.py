"""Maxima and means of windows, and their gradients.

Windows and strides have one entry per dimension of the operand, 1 for batch and features.
Semantics: XLA's MaxPool, AvgPool and AvgPoolGrad.
"""

from collections.abc import Sequence

from xla_client import ops
from xla_client.lib import arithmetic, constants
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.windows import Padding, pairs_of
from xla_client.programs.builder import Dimensions, Op, integers
from xla_contract.errors import ShapeError
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.shape import Shape


@checked
def max_pool(
    operand: Op, window: Dimensions, strides: Dimensions, padding: Padding = "valid"
) -> Op:
    """The largest element of every window.

    Args:
        operand: An array of a type that has an order.
        window: The size of the window in each dimension: 1 for batch and features.
        strides: The step of the window in each dimension.
        padding: "same" or "valid".

    Returns:
        The largest elements, one per window.

    Raises:
        ShapeError: The window does not fit the operand.
        InvalidArgumentError: The operand is complex, or `padding` is another text.

    Example:
        >>> x = Builder("example").parameter(0, "f32[1,8,8,2]")
        >>> lib.pooling.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1])
        %reduce-window.3: f32[1,4,4,2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/pooling.h
    """
    window = integers(window)
    strides = integers(strides)
    element_type = operand.shape.element_type
    lowest = constants.min_value(operand.builder, element_type)
    largest = arithmetic.create_scalar_max_computation(element_type)
    return ops.reduce_window(operand, lowest, largest, window, strides, padding)


@checked
def max_pool_grad(
    operand: Op,
    gradient: Op,
    window: Dimensions,
    strides: Dimensions,
    padding: Padding = "valid",
) -> Op:
    """The gradient of `max_pool` with respect to its operand.

    The gradient of a window goes to the first of its largest elements.

    Args:
        operand: The operand of the pool.
        gradient: The gradient with respect to the result of the pool.
        window: The size of the window in each dimension: 1 for batch and features.
        strides: The step of the window in each dimension.
        padding: "same" or "valid".

    Returns:
        The gradient, of the operand's shape.

    Raises:
        ShapeError: The gradient does not have the shape of the pool, or the window does not fit the
            operand.
        InvalidArgumentError: `padding` is another text.

    Example:
        >>> b = Builder("example")
        >>> x, g = b.parameter(0, "f32[1,8,8,2]"), b.parameter(1, "f32[1,4,4,2]")
        >>> lib.pooling.max_pool_grad(x, g, [1, 2, 2, 1], [1, 2, 2, 1])
        %select-and-scatter.4: f32[1,8,8,2]

    See https://openxla.org/xla/operation_semantics#selectandscatter
    """
    window = integers(window)
    strides = integers(strides)
    element_type = operand.shape.element_type
    return ops.select_and_scatter(
        operand,
        arithmetic.create_scalar_ge_computation(element_type),
        window,
        strides,
        padding,
        gradient,
        constants.zero(operand.builder, element_type),
        arithmetic.create_scalar_add_computation(element_type),
    )


@checked
def avg_pool(
    operand: Op,
    window: Dimensions,
    strides: Dimensions,
    padding: Padding = "valid",
    *,
    counts_include_padding: bool = False,
) -> Op:
    """The mean of every window.

    Args:
        operand: An array of numbers.
        window: The size of the window in each dimension: 1 for batch and features.
        strides: The step of the window in each dimension.
        padding: "same" or "valid".
        counts_include_padding: Whether the mean counts the elements of the padding, as zeros.

    Returns:
        The means, one per window.

    Raises:
        ShapeError: The window does not fit the operand.
        InvalidArgumentError: `padding` is another text.

    Example:
        >>> x = Builder("example").parameter(0, "f32[1,8,8,2]")
        >>> lib.pooling.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1])
        %divide.8: f32[1,4,4,2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/pooling.h
    """
    window = integers(window)
    strides = integers(strides)
    pairs = pairs_of(padding, operand.shape.dimensions, window, strides)
    total = _sums(operand, window, strides, pairs)
    counts = _counts(operand.shape, operand, window, strides, pairs, counts_include_padding)
    return total / counts


@checked
def avg_pool_grad(
    gradient: Op,
    operand_dimensions: Dimensions,
    window: Dimensions,
    strides: Dimensions,
    padding: Padding = "valid",
    *,
    counts_include_padding: bool = False,
) -> Op:
    """The gradient of `avg_pool` with respect to its operand.

    The gradient of a window is spread evenly over its elements.

    Args:
        gradient: The gradient with respect to the result of the pool.
        operand_dimensions: The dimensions of the operand of the pool.
        window: The size of the window in each dimension: 1 for batch and features.
        strides: The step of the window in each dimension.
        padding: "same" or "valid".
        counts_include_padding: Whether the mean counts the elements of the padding, as zeros.

    Returns:
        The gradient, of `operand_dimensions`.

    Raises:
        ShapeError: The gradient does not have the shape of the pool, or the window does not fit the
            operand.
        InvalidArgumentError: `padding` is another text.

    Example:
        >>> g = Builder("example").parameter(0, "f32[1,4,4,2]")
        >>> lib.pooling.avg_pool_grad(g, [1, 8, 8, 2], [1, 2, 2, 1], [1, 2, 2, 1])
        %reduce-window.10: f32[1,8,8,2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/pooling.h
    """
    window = integers(window)
    strides = integers(strides)
    sizes = integers(operand_dimensions)
    shape = Shape.array(gradient.shape.element_type, sizes)
    pairs = pairs_of(padding, sizes, window, strides)
    counts = _counts(shape, gradient, window, strides, pairs, counts_include_padding)
    if counts.shape.dimensions != gradient.shape.dimensions:
        raise ShapeError(
            f"the gradient must have the shape of the pool, {counts.shape}, got {gradient.shape}"
        ).at("avg_pool_grad")
    # The gradients are dilated with stride - 1 zeros; then every element is in reach of exactly the
    # windows it belonged to.
    amounts = []
    for size, extent, stride, (low, _), count in zip(
        sizes, window, strides, pairs, gradient.shape.dimensions, strict=True
    ):
        spread = (count - 1) * stride + 1
        before = extent - 1 - low
        after = size + extent - 1 - spread - before
        amounts.append(PaddingDimension(before, after, stride - 1))
    zero = constants.zero(gradient.builder, gradient.shape.element_type)
    spaced = ops.pad(gradient / counts, zero, PaddingConfig(tuple(amounts)))
    ones = [1] * len(sizes)
    return _sums(spaced, window, ones, [(0, 0)] * len(sizes))


def _sums(
    operand: Op, window: Sequence[int], strides: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> Op:
    element_type = operand.shape.element_type
    zero = constants.zero(operand.builder, element_type)
    adder = arithmetic.create_scalar_add_computation(element_type)
    return ops.reduce_window_with_general_padding(
        operand, zero, adder, window, strides, padding=pairs
    )


def _counts(
    shape: Shape,
    like: Op,
    window: Sequence[int],
    strides: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    include_padding: bool,
) -> Op:
    """The number of elements in each window, for an operand of `shape`."""
    ones = constants.ones(like.builder, shape)
    if include_padding:
        one = constants.one(like.builder, shape.element_type)
        amounts = tuple(PaddingDimension(low, high) for low, high in pairs)
        ones, pairs = ops.pad(ones, one, PaddingConfig(amounts)), [(0, 0)] * len(pairs)
    return _sums(ones, window, strides, pairs)
