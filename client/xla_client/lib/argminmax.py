"""Indices of the largest and of the smallest elements.

Semantics: XLA's ArgMax and ArgMin: the first of equal elements, and a NaN wins over all numbers.
"""

import functools

from xla_client import ops
from xla_client.coercion.shapes import as_element_type
from xla_client.lib import constants
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Builder, Op
from xla_client.programs.computation import Computation
from xla_contract.errors import ShapeError
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.shape import Shape


@checked
def argmax(operand: Op, dimension: int, index_type: ElementTypeLike = ElementType.S32) -> Op:
    """The index of the largest element along a dimension.

    The first of equal elements wins, and a NaN over all numbers.

    Args:
        operand: An array of a type that has an order.
        dimension: The dimension; a negative number counts from the end.
        index_type: The element type of the result, an integer type.

    Returns:
        The indices, without that dimension.

    Raises:
        ShapeError: The dimension is empty, is not there, or has more elements than `index_type`
            counts.
        InvalidArgumentError: The operand is complex, or the name of `index_type` is unknown.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.argminmax.argmax(x, 1)
        %get-tuple-element.6: s32[2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    index_type = as_element_type(index_type)
    return _arg(operand, dimension, index_type, largest=True)


@checked
def argmin(operand: Op, dimension: int, index_type: ElementTypeLike = ElementType.S32) -> Op:
    """The index of the smallest element along a dimension.

    The first of equal elements wins, and a NaN over all numbers.

    Args:
        operand: An array of a type that has an order.
        dimension: The dimension; a negative number counts from the end.
        index_type: The element type of the result, an integer type.

    Returns:
        The indices, without that dimension.

    Raises:
        ShapeError: The dimension is empty, is not there, or has more elements than `index_type`
            counts.
        InvalidArgumentError: The operand is complex, or the name of `index_type` is unknown.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.argminmax.argmin(x, 1)
        %get-tuple-element.6: s32[2]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/arithmetic.h
    """
    index_type = as_element_type(index_type)
    return _arg(operand, dimension, index_type, largest=False)


def _arg(operand: Op, dimension: int, index_type: ElementType, *, largest: bool) -> Op:
    builder, element_type = operand.builder, operand.shape.element_type
    number = operand.shape.dimension_number(dimension)
    size = operand.shape.dimensions[number]
    bits = index_type.bit_width - index_type.is_signed_integer if index_type.is_integer else 0
    if not 0 < size <= 1 << bits:
        raise ShapeError(
            f"the dimension must have an element and its indices fit {index_type.text}, got dim "
            f"{number} = {size} of {operand.shape}"
        ).at("argmax" if largest else "argmin")
    worst = constants.min_value if largest else constants.max_value
    # The initial value is no better than any element and has the first index, so it wins only
    # where the first element is equal to it.
    both = ops.reduce(
        [operand, constants.iota_like(operand, number, index_type)],
        [worst(builder, element_type), constants.zero(builder, index_type)],
        _better(element_type, index_type, largest),
        [number],
    )
    return ops.get_tuple_element(both, 1)


@functools.cache
def _better(element_type: ElementType, index_type: ElementType, largest: bool) -> Computation:
    builder = Builder(f"{'argmax' if largest else 'argmin'}_{element_type.text}")
    shapes = [Shape.scalar(each) for each in (element_type, index_type)] * 2
    lhs, lhs_index, rhs, rhs_index = (builder.parameter(n, s) for n, s in enumerate(shapes))
    wins = ops.gt(lhs, rhs) if largest else ops.lt(lhs, rhs)
    ties = ops.eq(lhs, rhs)
    if element_type.is_floating:
        lhs_nan, rhs_nan = ops.ne(lhs, lhs), ops.ne(rhs, rhs)
        wins = ops.or_(wins, ops.and_(lhs_nan, ops.not_(rhs_nan)))
        ties = ops.or_(ties, ops.and_(lhs_nan, rhs_nan))
    first = ops.or_(wins, ops.and_(ties, ops.lt(lhs_index, rhs_index)))
    chosen = [ops.select(first, lhs, rhs), ops.select(first, lhs_index, rhs_index)]
    return builder.build(ops.tuple(chosen))
