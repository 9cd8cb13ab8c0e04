"""The evaluators of all-gather, whole and in halves."""

from collections.abc import Sequence

from xla_contract.ops.all_gather import AllGatherAttributes
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import alone_or_tuple, my_number, only_one, require_alone
from xla_server.ops.evaluation import Frame, Value


def evaluate_all_gather(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operands, joined with nothing."""
    _require_one_part(instruction, frame)
    return alone_or_tuple(tuple(operands))


def evaluate_all_gather_start(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operands, and the result."""
    _require_one_part(instruction, frame)
    values = alone_or_tuple(tuple(operands))
    return values, values


def _require_one_part(instruction: HloInstruction, frame: Frame) -> None:
    attributes: AllGatherAttributes = instruction.attributes
    require_alone(attributes.participants, frame)
    for operand, size in zip(instruction.operands, attributes.gathered, strict=True):
        shape: Shape = operand.shape
        if size != shape.dimensions[attributes.dimension]:
            me = my_number(attributes.participants.mode(), frame)
            raise only_one(me, f"a result of {size} in dimension {attributes.dimension}")
