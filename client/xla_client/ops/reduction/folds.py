"""Sums, products and extremes: the reductions behind the methods of Ops and `lib.arithmetic`.

The computations are made once per element type and shared, so that a program with many reductions
holds each of them once.
"""

import functools
import math
from collections.abc import Callable

from xla_client.ops.elementwise import comparison, elementwise
from xla_client.ops.elementwise.conversion import convert_element_type
from xla_client.ops.elementwise.special_values import extreme_array, number_array
from xla_client.ops.reduction.reduction import reduce
from xla_client.programs.builder import Builder, Dimensions, Op, integers
from xla_client.programs.checked import checked
from xla_client.programs.computation import Computation
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape

_FUNCTIONS: dict[str, Callable[[Op, Op], Op]] = {
    "add": elementwise.add,
    "multiply": elementwise.mul,
    "max": elementwise.max,
    "min": elementwise.min,
    "ge": comparison.ge,
    "and": elementwise.and_,
    "or": elementwise.or_,
}


@functools.cache
def scalar_computation(name: str, element_type: ElementType) -> Computation:
    """A binary function on scalars as a computation.

    Args:
        name: "add", "multiply", "max", "min", "ge", "and" or "or".
        element_type: The type of the scalars.

    Returns:
        The computation, the same one for the same name and type.
    """
    builder = Builder(f"{name}_{element_type.text}")
    shape = Shape.scalar(element_type)
    terms = builder.parameter(0, shape, "x"), builder.parameter(1, shape, "y")
    return builder.build(_FUNCTIONS[name](*terms))


@checked
def sum(operand: Op, dimensions: Dimensions | None = None) -> Op:
    """The sum over dimensions.

    Args:
        operand: An array of numbers.
        dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

    Returns:
        The sums, without those dimensions.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The element type has no zero, as f8e8m0fnu.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.arithmetic.sum(x, 1)
        %reduce.3: f32[2]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    zero = operand.builder.constant(number_array(0, operand.shape.element_type))
    return _fold(operand, zero, "add", dimensions)


@checked
def prod(operand: Op, dimensions: Dimensions | None = None) -> Op:
    """The product over dimensions.

    Args:
        operand: An array of numbers.
        dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

    Returns:
        The products, without those dimensions.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The element type does not have 1, as s1.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.arithmetic.prod(x, 1)
        %reduce.3: f32[2]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    one = operand.builder.constant(number_array(1, operand.shape.element_type))
    return _fold(operand, one, "multiply", dimensions)


@checked
def max(operand: Op, dimensions: Dimensions | None = None) -> Op:
    """The largest element over dimensions; NaN where there is one.

    The result for no elements is `lib.constants.min_value`.

    Args:
        operand: An array of a type that has an order.
        dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

    Returns:
        The largest elements, without those dimensions.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The operand is complex.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.arithmetic.max(x, 1)
        %reduce.3: f32[2]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    least = extreme_array(operand.shape.element_type, sign=-1, finite=False)
    return _fold(operand, operand.builder.constant(least), "max", dimensions)


@checked
def min(operand: Op, dimensions: Dimensions | None = None) -> Op:
    """The smallest element over dimensions; NaN where there is one.

    The result for no elements is `lib.constants.max_value`.

    Args:
        operand: An array of a type that has an order.
        dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

    Returns:
        The smallest elements, without those dimensions.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The operand is complex.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.arithmetic.min(x, 1)
        %reduce.3: f32[2]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    most = extreme_array(operand.shape.element_type, sign=1, finite=False)
    return _fold(operand, operand.builder.constant(most), "min", dimensions)


@checked
def any(operand: Op, dimensions: Dimensions | None = None) -> Op:
    """The logical or over dimensions; False of no elements.

    Args:
        operand: An array of preds.
        dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

    Returns:
        The preds, without those dimensions.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The element type is not pred.

    Example:
        >>> p = Builder("example").parameter(0, "pred[2,3]")
        >>> lib.arithmetic.any(p, 1)
        %reduce.3: pred[2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    _check_pred("any", operand)
    return _fold(operand, operand.builder.constant(False), "or", dimensions)


@checked
def all(operand: Op, dimensions: Dimensions | None = None) -> Op:
    """The logical and over dimensions; True of no elements.

    Args:
        operand: An array of preds.
        dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

    Returns:
        The preds, without those dimensions.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The element type is not pred.

    Example:
        >>> p = Builder("example").parameter(0, "pred[2,3]")
        >>> lib.arithmetic.all(p, 1)
        %reduce.3: pred[2]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    _check_pred("all", operand)
    return _fold(operand, operand.builder.constant(True), "and", dimensions)


@checked
def mean(operand: Op, dimensions: Dimensions | None = None) -> Op:
    """The mean over dimensions; NaN of no elements.

    Types narrower than f32 are summed in f32.

    Args:
        operand: An array of a floating or complex type.
        dimensions: The dimensions to reduce, by default all; negative numbers count from the end.

    Returns:
        The means, without those dimensions.

    Raises:
        ShapeError: The array has no such dimension.
        InvalidArgumentError: The element type is neither floating nor complex: its mean would have
            another type.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.arithmetic.mean(x, 1)
        %divide.6: f32[2]

    See https://openxla.org/xla/operation_semantics#reduce
    """
    element_type = operand.shape.element_type
    if not (element_type.is_floating or element_type.is_complex):
        raise InvalidArgumentError(
            f"a mean needs a floating or complex type, got {operand.shape}", op="mean"
        )
    numbers = _numbers(operand, dimensions)
    wide = ElementType.F32 if element_type.bit_width < 32 else element_type
    count = float(math.prod(operand.shape.dimensions[number] for number in numbers))
    total = sum(_converted(operand, wide), numbers)
    return _converted(total / count, element_type)


def _fold(operand: Op, initial: Op, name: str, dimensions: Dimensions | None) -> Op:
    computation = scalar_computation(name, operand.shape.element_type)
    return reduce(operand, initial, computation, _numbers(operand, dimensions))


def _numbers(operand: Op, dimensions: Dimensions | None) -> tuple[int, ...]:
    if dimensions is None:
        return tuple(range(operand.shape.rank))
    return tuple(operand.shape.dimension_number(number) for number in integers(dimensions))


def _converted(operand: Op, element_type: ElementType) -> Op:
    if operand.shape.element_type is element_type:
        return operand
    return convert_element_type(operand, element_type)


def _check_pred(name: str, operand: Op) -> None:
    if operand.shape.element_type is not ElementType.PRED:
        raise InvalidArgumentError(
            f"{name} needs pred elements, got {operand.shape}",
            op=name,
            hint="compare first, as in ops.ne(x, 0)",
        )
