"""Constant arrays, the extreme values of element types, and counting arrays."""

import numpy as np

from xla_client import ops
from xla_client.builder import Builder, Op
from xla_client.coercion.checked import checked
from xla_client.coercion.shapes import ShapeLike, as_element_type, as_shape
from xla_client.scalars import Scalar, scalar_array
from xla_client.special_values import extreme_array, floating_info, number_array
from xla_contract.element_type import ElementType, ElementTypeLike
from xla_contract.errors import InvalidArgumentError
from xla_contract.shape import Shape


@checked
def scalar(builder: Builder, value: Scalar, element_type: ElementTypeLike) -> Op:
    """`value` in this type, rank 0; InvalidArgumentError for one the type does not have."""
    element_type = as_element_type(element_type)
    return builder.constant(scalar_array(value, element_type))


@checked
def full(builder: Builder, shape: ShapeLike, value: Scalar) -> Op:
    """An array of `shape` whose elements are all `value`."""
    shape = as_shape(shape)
    return ops.broadcast(scalar(builder, value, shape.element_type), shape.dimensions)


@checked
def full_like(operand: Op, value: Scalar) -> Op:
    """`full` in the shape of `operand`."""
    return full(operand.builder, operand.shape, value)


@checked
def zero(builder: Builder, element_type: ElementTypeLike) -> Op:
    """Zero, rank 0; False for pred. InvalidArgumentError for f8e8m0fnu, which has none."""
    element_type = as_element_type(element_type)
    return builder.constant(number_array(0, as_element_type(element_type)))


@checked
def one(builder: Builder, element_type: ElementTypeLike) -> Op:
    """One, rank 0; True for pred. InvalidArgumentError for a type without it, as s1."""
    element_type = as_element_type(element_type)
    return builder.constant(number_array(1, as_element_type(element_type)))


@checked
def zeros(builder: Builder, shape: ShapeLike) -> Op:
    """An array of zeros; of False for pred."""
    shape = as_shape(shape)
    return ops.broadcast(zero(builder, shape.element_type), shape.dimensions)


@checked
def ones(builder: Builder, shape: ShapeLike) -> Op:
    """An array of ones; of True for pred."""
    shape = as_shape(shape)
    return ops.broadcast(one(builder, shape.element_type), shape.dimensions)


@checked
def zeros_like(operand: Op) -> Op:
    """`zeros` in the shape of `operand`."""
    return zeros(operand.builder, operand.shape)


@checked
def ones_like(operand: Op) -> Op:
    """`ones` in the shape of `operand`."""
    return ones(operand.builder, operand.shape)


@checked
def min_value(builder: Builder, element_type: ElementTypeLike) -> Op:
    """The least value: -inf where the type has it, False for pred.

    Raises InvalidArgumentError for complex types, which are not ordered.
    """
    element_type = as_element_type(element_type)
    return _extreme(builder, element_type, sign=-1, finite=False)


@checked
def max_value(builder: Builder, element_type: ElementTypeLike) -> Op:
    """The greatest value: inf where the type has it, True for pred; see `min_value`."""
    element_type = as_element_type(element_type)
    return _extreme(builder, element_type, sign=1, finite=False)


@checked
def min_finite_value(builder: Builder, element_type: ElementTypeLike) -> Op:
    """The least finite value; see `min_value`."""
    element_type = as_element_type(element_type)
    return _extreme(builder, element_type, sign=-1, finite=True)


@checked
def max_finite_value(builder: Builder, element_type: ElementTypeLike) -> Op:
    """The greatest finite value; see `min_value`."""
    element_type = as_element_type(element_type)
    return _extreme(builder, element_type, sign=1, finite=True)


@checked
def epsilon(builder: Builder, element_type: ElementTypeLike) -> Op:
    """The distance from one to the next larger value of a floating type."""
    element_type = as_element_type(element_type)
    return builder.constant(np.asarray(floating_info(element_type).eps, element_type.dtype))


@checked
def min_positive_normal_value(builder: Builder, element_type: ElementTypeLike) -> Op:
    """The least positive value of a floating type that is not denormal."""
    element_type = as_element_type(element_type)
    return builder.constant(np.asarray(floating_info(element_type).tiny, element_type.dtype))


@checked
def nan_value(builder: Builder, element_type: ElementTypeLike) -> Op:
    """Not a number; InvalidArgumentError for a type without it, as f4e2m1fn and all integers."""
    element_type = as_element_type(element_type)
    floating_info(element_type)
    value = np.asarray(np.nan).astype(element_type.dtype)
    if not np.isnan(value.astype(np.float64)):
        raise InvalidArgumentError(f"a type with NaN is needed, got {element_type.text}")
    return builder.constant(value)


@checked
def iota(builder: Builder, element_type: ElementTypeLike, size: int) -> Op:
    """The vector 0, 1, ... size - 1."""
    element_type = as_element_type(element_type)
    return builder.iota(Shape.array(element_type, (size,)), 0)


@checked
def iota_like(operand: Op, dimension: int, element_type: ElementTypeLike = ElementType.S32) -> Op:
    """The index along one dimension of every element of `operand`."""
    element_type = as_element_type(element_type)
    shape = Shape.array(element_type, operand.shape.dimensions)
    return operand.builder.iota(shape, operand.shape.dimension_number(dimension))


@checked
def identity_matrix(builder: Builder, element_type: ElementTypeLike, rows: int, columns: int) -> Op:
    """Ones where row and column are equal, zeros elsewhere."""
    element_type = as_element_type(element_type)
    shape = Shape.array(ElementType.S32, (rows, columns))
    diagonal = ops.eq(builder.iota(shape, 0), builder.iota(shape, 1))
    return ops.convert_element_type(diagonal, element_type)


def _extreme(builder: Builder, element_type: ElementTypeLike, *, sign: int, finite: bool) -> Op:
    return builder.constant(extreme_array(as_element_type(element_type), sign=sign, finite=finite))
