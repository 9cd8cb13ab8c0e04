"""Reducers as computations, and arrays folded by them.

The computations are made once per element type and shared, so that a program that folds often
holds each of them once.
"""

import functools
import math
from collections.abc import Callable, Sequence

from xla_client import ops
from xla_client.builder import Builder, Op
from xla_client.computation import Computation
from xla_client.lib import constants
from xla_contract.element_type import ElementType
from xla_contract.errors import InvalidArgumentError
from xla_contract.shape import Shape


@functools.cache
def create_scalar_add_computation(element_type: ElementType) -> Computation:
    """`(x, y) -> x + y` on scalars of this type."""
    return _scalar_computation("add", ops.add, element_type)


@functools.cache
def create_scalar_multiply_computation(element_type: ElementType) -> Computation:
    """`(x, y) -> x * y` on scalars of this type."""
    return _scalar_computation("multiply", ops.mul, element_type)


@functools.cache
def create_scalar_max_computation(element_type: ElementType) -> Computation:
    """`(x, y) -> max(x, y)` on scalars of this type, NaN where either is."""
    return _scalar_computation("max", ops.max, element_type)


@functools.cache
def create_scalar_min_computation(element_type: ElementType) -> Computation:
    """`(x, y) -> min(x, y)` on scalars of this type, NaN where either is."""
    return _scalar_computation("min", ops.min, element_type)


@functools.cache
def create_scalar_ge_computation(element_type: ElementType) -> Computation:
    """`(x, y) -> x >= y` on scalars of this type: what selects in a maximum pool."""
    return _scalar_computation("ge", ops.ge, element_type)


@functools.cache
def create_scalar_and_computation(element_type: ElementType) -> Computation:
    """`(x, y) -> x and y` on scalars of pred or of an integer type."""
    return _scalar_computation("and", ops.and_, element_type)


@functools.cache
def create_scalar_or_computation(element_type: ElementType) -> Computation:
    """`(x, y) -> x or y` on scalars of pred or of an integer type."""
    return _scalar_computation("or", ops.or_, element_type)


def sum(operand: Op, dimensions: Sequence[int] | None = None) -> Op:
    """The sum over these dimensions, by default all; negative numbers count from the end."""
    initial = constants.zero(operand.builder, operand.shape.element_type)
    return _fold(operand, initial, create_scalar_add_computation, dimensions)


def prod(operand: Op, dimensions: Sequence[int] | None = None) -> Op:
    """The product over these dimensions, by default all."""
    initial = constants.one(operand.builder, operand.shape.element_type)
    return _fold(operand, initial, create_scalar_multiply_computation, dimensions)


def max(operand: Op, dimensions: Sequence[int] | None = None) -> Op:
    """The largest over these dimensions, by default all; NaN where there is one.

    Of no elements it is `constants.min_value`.
    """
    initial = constants.min_value(operand.builder, operand.shape.element_type)
    return _fold(operand, initial, create_scalar_max_computation, dimensions)


def min(operand: Op, dimensions: Sequence[int] | None = None) -> Op:
    """The smallest over these dimensions, by default all; see `max`."""
    initial = constants.max_value(operand.builder, operand.shape.element_type)
    return _fold(operand, initial, create_scalar_min_computation, dimensions)


def any(operand: Op, dimensions: Sequence[int] | None = None) -> Op:
    """Whether one of the preds over these dimensions holds, by default of all.

    Raises InvalidArgumentError for another element type than pred.
    """
    _check_pred("any", operand)
    initial = operand.builder.constant(False)
    return _fold(operand, initial, create_scalar_or_computation, dimensions)


def all(operand: Op, dimensions: Sequence[int] | None = None) -> Op:
    """Whether all of the preds over these dimensions hold, by default of all; see `any`."""
    _check_pred("all", operand)
    initial = operand.builder.constant(True)
    return _fold(operand, initial, create_scalar_and_computation, dimensions)


def mean(operand: Op, dimensions: Sequence[int] | None = None) -> Op:
    """The mean over these dimensions, by default all; NaN of no elements.

    Types narrower than f32 are summed in f32. Raises InvalidArgumentError for integers and pred,
    whose mean has another type: convert first.
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


def _scalar_computation(
    name: str, function: Callable[[Op, Op], Op], element_type: ElementType
) -> Computation:
    builder = Builder(f"{name}_{element_type.text}")
    shape = Shape.scalar(element_type)
    return builder.build(
        function(builder.parameter(0, shape, "x"), builder.parameter(1, shape, "y"))
    )


def _fold(
    operand: Op,
    initial: Op,
    reducer: Callable[[ElementType], Computation],
    dimensions: Sequence[int] | None,
) -> Op:
    computation = reducer(operand.shape.element_type)
    return ops.reduce(operand, initial, computation, _numbers(operand, dimensions))


def _numbers(operand: Op, dimensions: Sequence[int] | None) -> tuple[int, ...]:
    if dimensions is None:
        return tuple(range(operand.shape.rank))
    return tuple(operand.shape.dimension_number(number) for number in dimensions)


def _converted(operand: Op, element_type: ElementType) -> Op:
    if operand.shape.element_type is element_type:
        return operand
    return ops.convert_element_type(operand, element_type)


def _check_pred(name: str, operand: Op) -> None:
    if operand.shape.element_type is not ElementType.PRED:
        raise InvalidArgumentError(
            f"{name} needs pred elements, got {operand.shape}",
            op=name,
            hint="compare first, as in ops.ne(x, 0)",
        )
