"""concatenate: arrays one behind the other.

Semantics: XLA's ConcatInDim.
"""

from collections.abc import Sequence

import numpy as np

from xla_contract.ops.concatenate import ConcatenateAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_concatenate(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operands joined along the dimension."""
    attributes: ConcatenateAttributes = instruction.attributes
    return np.concatenate(operands, attributes.dimension)  # type: ignore[arg-type]
