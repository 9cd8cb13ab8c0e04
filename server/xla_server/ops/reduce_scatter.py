"""The evaluator of reduce-scatter."""

from collections.abc import Sequence

from xla_contract.ops.reduce_scatter import ReduceScatterAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import alone_or_tuple, my_number, only_one, require_alone
from xla_server.ops.evaluation import Frame, Value


def evaluate_reduce_scatter(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operands: one participant keeps all of them."""
    attributes: ReduceScatterAttributes = instruction.attributes
    require_alone(attributes.participants, frame)
    for operand, size in zip(instruction.operands, attributes.scattered, strict=True):
        if size != operand.shape.dimensions[attributes.dimension]:
            me = my_number(attributes.participants.mode(), frame)
            raise only_one(me, f"a result of {size} in dimension {attributes.dimension}")
    return alone_or_tuple(tuple(operands))
