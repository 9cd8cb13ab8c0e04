"""Choosing between values element by element. Semantics: XLA's Select and Clamp."""

from typing import Any

import numpy as np

from xla_client.coercion.literals import element_type_of
from xla_client.ops.control import get_tuple_element, tuple
from xla_client.ops.elementwise.binary import stretch
from xla_client.ops.elementwise.broadcasting import plan_in_dim
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import Op, errors_at, promoted
from xla_contract.errors import ShapeError
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


@checked
def select(pred: Op, on_true: Op | Scalar, on_false: Op | Scalar) -> Op:
    """The elements of `on_true` where `pred` is true, and of `on_false` elsewhere.

    Scalars among the three are broadcast to the dimensions of the others.

    Args:
        pred: An array of preds.
        on_true: An array, or a number, which takes the element type of `on_false`; or a tuple. Two
            numbers of Python are of the wider type; one takes that of numpy's number beside it.
        on_false: An array, or a number, which takes the element type of `on_true`; or a tuple of
            the same structure, chosen from element by element.

    Returns:
        The chosen elements.

    Raises:
        ShapeError: The types or dimensions do not fit each other.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.select(x.gt(0), x, 0.0)
        %select.7: f32[2,3]

    See https://openxla.org/xla/operation_semantics#select
    """
    if any(isinstance(side, Op) and side.shape.is_tuple for side in (on_true, on_false)):
        return _select_tuple(pred, on_true, on_false)
    like = next((side.shape for side in (on_true, on_false) if isinstance(side, Op)), None)
    with errors_at(Opcode.SELECT):
        if like is None:
            like = Shape.scalar(_type_of_numbers(on_true, on_false))
        lhs, rhs = (promoted(pred.builder, side, like) for side in (on_true, on_false))
    wide = _widest(pred, lhs, rhs)
    operands = [pred, _broadcast(lhs, wide), _broadcast(rhs, wide)]
    return pred.builder.instruction(Opcode.SELECT, operands)


def _type_of_numbers(*numbers: Any) -> ElementType:
    own = {each.dtype for each in numbers if isinstance(each, np.generic)}
    return ElementType.from_dtype(own.pop()) if len(own) == 1 else element_type_of([*numbers])


@checked
def clamp(min: Op | Scalar, operand: Op, max: Op | Scalar) -> Op:
    """The operand, with elements below `min` raised to it and elements above `max` lowered to it.

    Args:
        min: The least value: a number, or an Op of a scalar or of the operand's shape.
        operand: An array.
        max: The greatest value, in the same way.

    Returns:
        The bounded elements, of the operand's shape.

    Raises:
        ShapeError: A bound is neither a scalar nor of the operand's shape.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.clamp(0.0, x, 1.0)
        %clamp.4: f32[2,3]

    See https://openxla.org/xla/operation_semantics#clamp
    """
    with errors_at(Opcode.CLAMP):
        low, high = (promoted(operand.builder, each, operand.shape) for each in (min, max))
    operands = [low, operand, high]
    return operand.builder.instruction(Opcode.CLAMP, operands)


def _select_tuple(pred: Op, on_true: Op | Scalar, on_false: Op | Scalar) -> Op:
    sides = [
        [get_tuple_element(side, number) for number in range(len(side.shape.tuple_shapes))]
        for side in (on_true, on_false)
        if isinstance(side, Op) and side.shape.is_tuple
    ]
    if len(sides) != 2 or len(sides[0]) != len(sides[1]):
        shapes = " and ".join(
            str(side.shape) if isinstance(side, Op) else repr(side) for side in (on_true, on_false)
        )
        raise ShapeError(f"tuples must have equally many elements, got {shapes}").at(Opcode.SELECT)
    chosen = [select(pred, true, false) for true, false in zip(*sides, strict=True)]
    return tuple(chosen, pred.builder)


def _widest(*operands: Op) -> Op:
    for operand in operands:
        if operand.shape.rank:
            return operand
    return operands[0]


def _broadcast(operand: Op, wide: Op) -> Op:
    if not operand.shape.is_scalar:
        return operand
    return stretch(operand, plan_in_dim(operand.shape, wide.shape.dimensions, ()))
