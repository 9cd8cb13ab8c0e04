"""partition-id and replica-id (XLA's names, too): the numbers that the run was given."""

from collections.abc import Sequence

import numpy as np

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_replica_id(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The number of the copy of the program."""
    return np.asarray(frame.participants.replica_id, np.uint32)


def evaluate_partition_id(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The number of the part of the program."""
    return np.asarray(frame.participants.partition_id, np.uint32)
