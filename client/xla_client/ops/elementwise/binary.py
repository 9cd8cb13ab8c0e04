"""Elementwise operations with XLA's explicit broadcasting, as instructions of a builder."""

from typing import Any

from xla_client.ops.elementwise.broadcasting import BroadcastSpec, plan_binary
from xla_client.programs.arguments.scalars import Scalar, scalar_array
from xla_client.programs.builder import Builder, Dimensions, Op, builder_of, integers
from xla_contract.errors import ShapeError, XlaError
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_contract.ops.shaping.reshape import ReshapeAttributes
from xla_contract.types.opcode import Opcode


def elementwise(
    opcode: Opcode,
    lhs: Op | Scalar,
    rhs: Op | Scalar,
    broadcast_dimensions: Dimensions | None = None,
    attributes: Any = NO_ATTRIBUTES,
) -> Op:
    """Return a binary elementwise operation with XLA's explicit broadcasting.

    One operand may be a Python or numpy scalar; it takes the other's element type.

    Raises:
        ShapeError: The operands' dimensions do not match.
    """
    builder = builder_of(lhs, rhs)
    try:
        lhs, rhs = _as_op(builder, lhs, rhs), _as_op(builder, rhs, lhs)
        mapping = None
        if broadcast_dimensions is not None:
            mapping = integers(broadcast_dimensions, "broadcast_dimensions")
        lhs_plan, rhs_plan = plan_binary(lhs.shape, rhs.shape, mapping)
    except XlaError as error:
        raise error.at(opcode) from error.__cause__
    operands = [stretch(lhs, lhs_plan), stretch(rhs, rhs_plan)]
    return builder.instruction(opcode, operands, attributes)


def stretch(operand: Op, plan: BroadcastSpec) -> Op:
    """`operand` broadcast as planned: degenerate dimensions are reshaped away first."""
    if plan.is_trivial:
        return operand
    builder = operand.builder
    kept = plan.kept
    if len(kept) < operand.shape.rank:
        sizes = tuple(operand.shape.dimensions[number] for number in kept)
        operand = builder.instruction(Opcode.RESHAPE, [operand], ReshapeAttributes(sizes))
    mapping = tuple(plan.mapping[number] for number in kept)
    attributes = BroadcastAttributes(mapping, plan.result)
    return builder.instruction(Opcode.BROADCAST, [operand], attributes)


def _as_op(builder: Builder, value: Op | Scalar, other: Op | Scalar) -> Op:
    if isinstance(value, Op):
        return value
    assert isinstance(other, Op)
    if not other.shape.is_array:
        raise ShapeError(f"operands must be arrays, got {other.shape} and {value!r}")
    return builder.constant(scalar_array(value, other.shape.element_type))
