"""Constant arrays, the extreme values of element types, and counting arrays."""

import functools
from collections.abc import Callable
from typing import Protocol

import numpy as np

from xla_client import ops
from xla_client.coercion.shapes import ShapeLike, as_element_type, as_shape
from xla_client.ops.elementwise.special_values import extreme_array, floating_info, number_array
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.scalars import Scalar, scalar_array
from xla_client.programs.builder import Builder, Op
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.literal import Array
from xla_contract.types.shape import Shape


@checked
def scalar(builder: Builder, value: Scalar, element_type: ElementTypeLike) -> Op:
    """A constant of rank 0.

    Args:
        builder: The builder of the program.
        value: A number that the type has.
        element_type: The element type of the result.

    Returns:
        The constant.

    Raises:
        InvalidArgumentError: The type does not have the value, or its name is unknown.

    Example:
        >>> lib.constants.scalar(Builder("example"), 2.5, "f32")
        %constant.1: f32[]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/constants.h
    """
    element_type = as_element_type(element_type)
    return builder.constant(scalar_array(value, element_type))


@checked
def full(builder: Builder, shape: ShapeLike, value: Scalar) -> Op:
    """An array whose elements are all one value.

    Args:
        builder: The builder of the program.
        shape: The shape of the array.
        value: A number that the element type has.

    Returns:
        The array.

    Raises:
        InvalidArgumentError: The element type does not have the value, or the shape is malformed.

    Example:
        >>> lib.constants.full(Builder("example"), "f32[2,3]", 2.5)
        %broadcast.2: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/constants.h
    """
    shape = as_shape(shape)
    return ops.broadcast(scalar(builder, value, shape.element_type), shape.dimensions)


@checked
def full_like(operand: Op, value: Scalar) -> Op:
    """An array of the operand's shape whose elements are all one value.

    Args:
        operand: An array.
        value: A number that the element type has.

    Returns:
        The array.

    Raises:
        InvalidArgumentError: The element type does not have the value.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.constants.full_like(x, 2.5)
        %broadcast.3: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/constants.h
    """
    return full(operand.builder, operand.shape, value)


_DOC = """{text}

Args:
    builder: The builder of the program.
    element_type: The element type of the result.

Returns:
    The constant, rank 0.

Raises:
    InvalidArgumentError: {refusal}

Example:
    >>> lib.constants.{name}(Builder("example"), "f32")
    %constant.1: f32[]

See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/constants.h
"""
_NO_ORDER = "The type is complex, and so has no order, or is unknown."
_NOT_FLOATING = "The type is not floating, or its name is unknown."


class _MakesConstant(Protocol):
    def __call__(self, builder: Builder, element_type: ElementTypeLike) -> Op: ...


def _constant(
    name: str, text: str, refusal: str, value: Callable[[ElementType], Array]
) -> _MakesConstant:
    """Return a function that makes a constant of any type that has the value."""

    def function(builder: Builder, element_type: ElementTypeLike) -> Op:
        return builder.constant(value(as_element_type(element_type)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _DOC.format(name=name, text=text, refusal=refusal)
    return checked(function)


def _of_floats(element_type: ElementType, name: str) -> Array:
    """Return the value of this name that numpy has for a floating type."""
    return np.asarray(getattr(floating_info(element_type), name), element_type.dtype)


def _nan(element_type: ElementType) -> Array:
    floating_info(element_type)
    value = np.asarray(np.nan).astype(element_type.dtype)
    if not np.isnan(value.astype(np.float64)):
        raise InvalidArgumentError(f"a type with NaN is needed, got {element_type.text}")
    return value


zero = _constant(
    "zero",
    "Zero, rank 0; False for pred.",
    "The type has no zero, as f8e8m0fnu, or is unknown.",
    functools.partial(number_array, 0),
)
one = _constant(
    "one",
    "One, rank 0; True for pred.",
    "The type does not have 1, as s1, or is unknown.",
    functools.partial(number_array, 1),
)
min_value = _constant(
    "min_value",
    "The least value of a type: -inf where the type has it, False for pred.",
    _NO_ORDER,
    functools.partial(extreme_array, sign=-1, finite=False),
)
max_value = _constant(
    "max_value",
    "The greatest value of a type: inf where the type has it, True for pred.",
    _NO_ORDER,
    functools.partial(extreme_array, sign=1, finite=False),
)
min_finite_value = _constant(
    "min_finite_value",
    "The least finite value of a type.",
    _NO_ORDER,
    functools.partial(extreme_array, sign=-1, finite=True),
)
max_finite_value = _constant(
    "max_finite_value",
    "The greatest finite value of a type.",
    _NO_ORDER,
    functools.partial(extreme_array, sign=1, finite=True),
)
epsilon = _constant(
    "epsilon",
    "The distance from one to the next larger value of a floating type.",
    _NOT_FLOATING,
    functools.partial(_of_floats, name="eps"),
)
min_positive_normal_value = _constant(
    "min_positive_normal_value",
    "The least positive normal value of a floating type: smaller ones are subnormal.",
    _NOT_FLOATING,
    functools.partial(_of_floats, name="tiny"),
)
nan_value = _constant(
    "nan_value",
    "Not a number.",
    "The type has no NaN, as f4e2m1fn and integers, or is unknown.",
    _nan,
)


@checked
def zeros(builder: Builder, shape: ShapeLike) -> Op:
    """An array of zeros; of False for pred.

    Args:
        builder: The builder of the program.
        shape: The shape of the array.

    Returns:
        The array.

    Raises:
        InvalidArgumentError: The element type has no zero, or the shape is malformed.

    Example:
        >>> lib.constants.zeros(Builder("example"), "f32[2,3]")
        %broadcast.2: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/constants.h
    """
    shape = as_shape(shape)
    return ops.broadcast(zero(builder, shape.element_type), shape.dimensions)


@checked
def ones(builder: Builder, shape: ShapeLike) -> Op:
    """An array of ones; of True for pred.

    Args:
        builder: The builder of the program.
        shape: The shape of the array.

    Returns:
        The array.

    Raises:
        InvalidArgumentError: The element type does not have 1, or the shape is malformed.

    Example:
        >>> lib.constants.ones(Builder("example"), "f32[2,3]")
        %broadcast.2: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/constants.h
    """
    shape = as_shape(shape)
    return ops.broadcast(one(builder, shape.element_type), shape.dimensions)


@checked
def zeros_like(operand: Op) -> Op:
    """An array of zeros of the operand's shape.

    Args:
        operand: An array.

    Returns:
        The zeros.

    Raises:
        InvalidArgumentError: The element type has no zero.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.constants.zeros_like(x)
        %broadcast.3: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/constants.h
    """
    return zeros(operand.builder, operand.shape)


@checked
def ones_like(operand: Op) -> Op:
    """An array of ones of the operand's shape.

    Args:
        operand: An array.

    Returns:
        The ones.

    Raises:
        InvalidArgumentError: The element type does not have 1.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.constants.ones_like(x)
        %broadcast.3: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/constants.h
    """
    return ones(operand.builder, operand.shape)


@checked
def iota(builder: Builder, element_type: ElementTypeLike, size: int) -> Op:
    """The vector 0, 1, ... size - 1.

    Args:
        builder: The builder of the program.
        element_type: The element type of the result.
        size: The length of the vector.

    Returns:
        The vector.

    Raises:
        ShapeError: The element type is pred.
        InvalidArgumentError: The size is negative or too large, or the type is unknown.

    Example:
        >>> lib.constants.iota(Builder("example"), "s32", 4)
        %iota.1: s32[4]

    See https://openxla.org/xla/operation_semantics#iota
    """
    element_type = as_element_type(element_type)
    return builder.iota(Shape.array(element_type, (size,)), 0)


@checked
def iota_like(operand: Op, dimension: int, element_type: ElementTypeLike = ElementType.S32) -> Op:
    """The index of every element along one dimension.

    Args:
        operand: An array.
        dimension: The dimension; a negative number counts from the end.
        element_type: The element type of the result.

    Returns:
        The indices, of the operand's dimensions.

    Raises:
        ShapeError: The array has no such dimension, or the type is pred.
        InvalidArgumentError: The type is unknown.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.constants.iota_like(x, 1)
        %iota.2: s32[2,3]

    See https://openxla.org/xla/operation_semantics#iota
    """
    element_type = as_element_type(element_type)
    shape = Shape.array(element_type, operand.shape.dimensions)
    return operand.builder.iota(shape, operand.shape.dimension_number(dimension))


@checked
def identity_matrix(builder: Builder, element_type: ElementTypeLike, rows: int, columns: int) -> Op:
    """The matrix with ones where row and column are equal, zeros elsewhere.

    Args:
        builder: The builder of the program.
        element_type: The element type of the result.
        rows: The number of rows.
        columns: The number of columns.

    Returns:
        The matrix.

    Raises:
        InvalidArgumentError: A size is negative or too large, or the type is unknown.

    Example:
        >>> lib.constants.identity_matrix(Builder("example"), "f32", 2, 3)
        %convert.4: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    element_type = as_element_type(element_type)
    shape = Shape.array(ElementType.S32, (rows, columns))
    diagonal = ops.eq(builder.iota(shape, 0), builder.iota(shape, 1))
    return ops.convert_element_type(diagonal, element_type)
