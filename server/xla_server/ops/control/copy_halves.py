"""The evaluators of copy-start and copy-done; values are never written to, so none is copied."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_copy_start(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The copy, the operand and a context."""
    return operands[0], operands[0], np.zeros((), np.uint32)


def evaluate_copy_done(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The copy."""
    return cast(tuple[Value, ...], operands[0])[0]
