"""The evaluator of conditional."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value


def evaluate_conditional(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Deep[Value]:
    """Call the chosen branch; an index out of range chooses the last."""
    choice = cast(Array, operands[0])
    last = len(instruction.called) - 1
    if choice.dtype == np.bool_:
        number = 0 if choice else 1
    else:
        number = int(choice) if 0 <= int(choice) <= last else last
    return frame.enter(instruction.called[number], (operands[1 + number],))
