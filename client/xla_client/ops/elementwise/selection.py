"""Choosing between values element by element. Semantics: XLA's Select and Clamp."""

from xla_client.ops.control import get_tuple_element, tuple
from xla_client.ops.elementwise.binary import stretch
from xla_client.ops.elementwise.broadcasting import plan_in_dim
from xla_client.programs.builder import Op, placed, promoted
from xla_client.programs.checked import checked
from xla_client.programs.scalars import Scalar
from xla_contract.errors import ShapeError
from xla_contract.types.opcode import Opcode


@checked
def select(pred: Op, on_true: Op | Scalar, on_false: Op | Scalar) -> Op:
    """`on_true` where `pred` holds and `on_false` elsewhere.

    A scalar among the three is broadcast to the dimensions of the others, and one of
    `on_true` and `on_false` may be a number, which takes the element type of the other. Tuples of
    the same structure are chosen element by element. Raises ShapeError for other differences.

    Args:
        pred: Where to take `on_true`: pred, scalar or of the others' dimensions.
        on_true: An Op or a number.
        on_false: An Op or a number.

    Returns:
        The chosen elements.

    Raises:
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
    with placed(Opcode.SELECT):
        lhs, rhs = (promoted(pred.builder, side, like) for side in (on_true, on_false))
    wide = _widest(pred, lhs, rhs)
    operands = [pred, _broadcast(lhs, wide), _broadcast(rhs, wide)]
    return pred.builder.instruction(Opcode.SELECT, operands)


@checked
def clamp(min: Op | Scalar, operand: Op, max: Op | Scalar) -> Op:
    """The operand, raised to `min` and lowered to `max`; both may be scalars.

    Raises ShapeError when a bound is neither a scalar nor as large as the operand.

    Args:
        min: The least value, an Op or a number.
        operand: An array.
        max: The greatest value, an Op or a number.

    Returns:
        The bounded operand, of its shape.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.clamp(0.0, x, 1.0)
        %clamp.4: f32[2,3]

    See https://openxla.org/xla/operation_semantics#clamp
    """
    with placed(Opcode.CLAMP):
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
