"""broadcast (HLO's kBroadcast): a view that repeats the operand along new dimensions."""

import numpy as np

from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands
from xla_server.ops.numerics.indices import spread


@of_operands
def evaluate_broadcast(instruction: HloInstruction, operand: Array) -> Array:
    """The operand with its dimensions at positions `dimensions`, repeated along all others."""
    attributes: BroadcastAttributes = instruction.attributes
    placed = spread(operand, attributes.dimensions, instruction.shape.rank)
    return np.broadcast_to(placed, instruction.shape.dimensions)
