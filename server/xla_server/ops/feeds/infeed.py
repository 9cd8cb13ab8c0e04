"""infeed (XLA's InfeedWithToken): the next item of the device's queue."""

from collections.abc import Sequence

import numpy as np

from xla_contract.ops.feeds.infeed import InfeedAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Frame, Value


def evaluate_infeed(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Wait for an item, and pair it with a token."""
    attributes: InfeedAttributes = instruction.attributes
    return _aligned(frame.infeed(attributes.shape, instruction)), TOKEN


def _aligned(value: Value) -> Value:
    """The value, copied where its elements do not lie at multiples of their size.

    Items are views of the messages that brought them, and custom calls get pointers.
    """
    if isinstance(value, tuple):
        return tuple(map(_aligned, value))
    if not isinstance(value, np.ndarray) or value.flags.aligned:
        return value
    return value.copy()
