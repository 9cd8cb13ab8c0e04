"""infeed: the next item of the device's queue.

Semantics: XLA's InfeedWithToken.
"""

from collections.abc import Sequence

from xla_contract.ops.infeed import InfeedAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Frame, Value


def evaluate_infeed(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Wait for an item, and pair it with a token."""
    attributes: InfeedAttributes = instruction.attributes
    return frame.infeed(attributes.shape, instruction), TOKEN
