"""outfeed (XLA's OutfeedWithToken): a value put into the device's queue."""

from collections.abc import Sequence

from xla_contract.ops.feeds.outfeed import OutfeedAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Frame, Value


def evaluate_outfeed(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Put the value in, waiting while the queue is full, and give a token."""
    attributes: OutfeedAttributes = instruction.attributes
    frame.outfeed(operands[0], attributes.shape, instruction)
    return TOKEN
