"""Running sums, products and extremes along a dimension, each one ReduceWindow."""

from collections.abc import Callable

from xla_client import ops
from xla_client.lib import constants
from xla_client.ops.reduction.folds import scalar_computation
from xla_client.programs.builder import Builder, Op
from xla_client.programs.checked import checked
from xla_contract.types.element_type import ElementType


@checked
def cumsum(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
    """The running sum along a dimension.

    Args:
        operand: An array of numbers.
        dimension: The dimension; a negative number counts from the end.
        reverse: Whether to sum from the last element to the first.

    Returns:
        The sums, of the operand's shape.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The element type has no zero, as f8e8m0fnu.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.cumulative.cumsum(x, 1)
        %reduce-window.3: f32[2,3]

    See https://openxla.org/xla/operation_semantics#reducewindow
    """
    return _running(operand, dimension, constants.zero, "add", reverse)


@checked
def cumprod(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
    """The running product along a dimension.

    Args:
        operand: An array of numbers.
        dimension: The dimension; a negative number counts from the end.
        reverse: Whether to multiply from the last element to the first.

    Returns:
        The products, of the operand's shape.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The element type does not have 1, as s1.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.cumulative.cumprod(x, 1)
        %reduce-window.3: f32[2,3]

    See https://openxla.org/xla/operation_semantics#reducewindow
    """
    return _running(operand, dimension, constants.one, "multiply", reverse)


@checked
def cummax(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
    """The running maximum along a dimension; NaN from the first NaN on.

    Args:
        operand: An array of a type that has an order.
        dimension: The dimension; a negative number counts from the end.
        reverse: Whether to go from the last element to the first.

    Returns:
        The maxima, of the operand's shape.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The operand is complex.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.cumulative.cummax(x, 1)
        %reduce-window.3: f32[2,3]

    See https://openxla.org/xla/operation_semantics#reducewindow
    """
    return _running(operand, dimension, constants.min_value, "max", reverse)


@checked
def cummin(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
    """The running minimum along a dimension; NaN from the first NaN on.

    Args:
        operand: An array of a type that has an order.
        dimension: The dimension; a negative number counts from the end.
        reverse: Whether to go from the last element to the first.

    Returns:
        The minima, of the operand's shape.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The operand is complex.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.cumulative.cummin(x, 1)
        %reduce-window.3: f32[2,3]

    See https://openxla.org/xla/operation_semantics#reducewindow
    """
    return _running(operand, dimension, constants.max_value, "min", reverse)


def _running(
    operand: Op,
    dimension: int,
    initial: Callable[[Builder, ElementType], Op],
    function: str,
    reverse: bool,
) -> Op:
    element_type = operand.shape.element_type
    start = initial(operand.builder, element_type)
    number = operand.shape.dimension_number(dimension)
    size = operand.shape.dimensions[number]
    if not size:
        return operand
    sizes, strides = [1] * operand.shape.rank, [1] * operand.shape.rank
    padding = [(0, 0)] * operand.shape.rank
    sizes[number] = size
    padding[number] = (0, size - 1) if reverse else (size - 1, 0)
    reducer = scalar_computation(function, element_type)
    return ops.reduce_window_with_general_padding(
        operand, start, reducer, sizes, strides, padding=padding
    )
