"""What the collectives mean where a program runs on one replica and one partition.

The only participant exchanges data with itself. A group that names it together with others asks
for replicas that there are not, and is refused when the program runs.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collective import Participants
from xla_contract.types.replica_groups import GroupMode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Frame, Value


def my_number(mode: GroupMode, frame: Frame) -> int:
    """The number by which the groups of this mode name the run."""
    # With one replica or one partition the flattened id is the other one's.
    if mode is GroupMode.CROSS_PARTITION:
        return frame.partition_id
    if mode is GroupMode.FLATTENED_ID:
        return frame.replica_id + frame.partition_id
    return frame.replica_id


def require_alone(participants: Participants, frame: Frame, *, has_global_ids: bool = True) -> None:
    """Raise InvalidArgumentError unless the run's group is the run alone."""
    if not participants.groups.groups:
        return
    me = my_number(participants.mode(has_global_ids=has_global_ids), frame)
    group = participants.groups.group_of(me)
    if group != (me,):
        raise only_one(me, f"groups {participants.groups}")


def only_one(me: int, got: str) -> InvalidArgumentError:
    """The error of an instruction that asks for other participants."""
    return InvalidArgumentError(
        f"a program on one replica can only exchange data with itself, number {me}, got {got}",
        hint="lower the program for one device",
    )


def zeros(shape: Shape) -> Value:
    """Zeros of a shape: what nobody sent, and the contexts of operations in halves."""
    if shape.is_tuple:
        return tuple(map(zeros, shape.tuple_shapes))
    if shape.is_token:
        return TOKEN
    return np.zeros(shape.dimensions, shape.element_type.dtype)


def alone_or_tuple(values: tuple[Value, ...]) -> Value:
    """The only value, or all of them: how variadic operations give their results."""
    return values[0] if len(values) == 1 else values


def evaluate_done(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The result of an operation in halves: its first half gave the operands, and that."""
    return cast(tuple[Value, ...], operands[0])[1]
