"""broadcast: a view that repeats the operand along new dimensions.

Semantics: HLO's kBroadcast.
"""

import numpy as np

from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_broadcast(instruction: HloInstruction, operand: Array) -> Array:
    """The operand with its dimensions at positions `dimensions`, repeated along all others."""
    attributes: BroadcastAttributes = instruction.attributes
    targets = attributes.dimensions
    sizes = [1] * instruction.shape.rank
    for source, target in enumerate(targets):
        sizes[target] = operand.shape[source]
    in_order = operand.transpose(np.argsort(targets)) if targets else operand
    return np.broadcast_to(in_order.reshape(sizes), instruction.shape.dimensions)
