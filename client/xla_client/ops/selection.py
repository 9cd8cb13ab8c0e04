"""Choosing between values element by element. Semantics: XLA's Select and Clamp."""

from xla_client.broadcasting import plan_in_dim
from xla_client.builder import Op, builder_of, stretch
from xla_client.ops.control import get_tuple_element, tuple
from xla_client.scalars import Scalar, scalar_array
from xla_contract.errors import ShapeError
from xla_contract.opcode import Opcode


def select(pred: Op, on_true: Op | Scalar, on_false: Op | Scalar) -> Op:
    """`on_true` where `pred` holds and `on_false` elsewhere.

    A scalar among the three is broadcast to the dimensions of the others, and one of `on_true`
    and `on_false` may be a Python scalar. Tuples of the same structure are chosen element by
    element. Raises ShapeError for other differences.
    """
    if any(isinstance(side, Op) and side.shape.is_tuple for side in (on_true, on_false)):
        return _select_tuple(pred, on_true, on_false)
    like = on_true if isinstance(on_true, Op) else on_false
    lhs, rhs = _like(on_true, like), _like(on_false, like)
    wide = _widest(pred, lhs, rhs)
    operands = [pred, _broadcast(lhs, wide), _broadcast(rhs, wide)]
    return pred.builder.instruction(Opcode.SELECT, operands)


def clamp(min: Op | Scalar, operand: Op, max: Op | Scalar) -> Op:
    """The operand, raised to `min` and lowered to `max`; both may be scalars.

    Raises ShapeError when a bound is neither a scalar nor as large as the operand.
    """
    operands = [_like(min, operand), operand, _like(max, operand)]
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


def _like(value: Op | Scalar, other: Op | Scalar) -> Op:
    if isinstance(value, Op):
        return value
    builder = builder_of(other, value)
    assert isinstance(other, Op)
    return builder.constant(scalar_array(value, other.shape.element_type))


def _widest(*operands: Op) -> Op:
    for operand in operands:
        if operand.shape.rank:
            return operand
    return operands[0]


def _broadcast(operand: Op, wide: Op) -> Op:
    if not operand.shape.is_scalar:
        return operand
    return stretch(operand, plan_in_dim(operand.shape, wide.shape.dimensions, ()))
