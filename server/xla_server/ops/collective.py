"""Evaluation of collectives on one replica and one partition.

The only participant exchanges data with itself. A group that names other participants as well is
refused when the program runs.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, cast

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collective import Participants
from xla_contract.types.replica_groups import GroupMode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Evaluator, Frame, Value

Exchange: TypeAlias = "int | Shape | tuple[Exchange, ...]"
"""The result of an exchange without others: an operand by its number, zeros of a shape, or a
tuple of such results."""


class Participant(Protocol):
    """The numbers by which groups name a run."""

    replica_id: int
    partition_id: int


ExchangeRule: TypeAlias = Callable[[HloInstruction, Participant], Exchange]
"""Gives the result of an operation; raises InvalidArgumentError where it asks for others."""


def evaluator_of(rule: ExchangeRule) -> Evaluator:
    """Return the evaluator of an operation with this rule."""

    @functools.wraps(rule)
    def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        return _value(rule(instruction, frame), operands)

    return evaluate


def _value(exchange: Exchange, operands: Sequence[Value]) -> Value:
    if isinstance(exchange, int):
        return operands[exchange]
    if isinstance(exchange, tuple):
        return tuple(_value(part, operands) for part in exchange)
    return zeros(exchange)


def my_number(mode: GroupMode, me: Participant) -> int:
    """The number by which the groups of this mode name the run."""
    # With one replica or one partition the flattened id is the other one's.
    if mode is GroupMode.CROSS_PARTITION:
        return me.partition_id
    if mode is GroupMode.FLATTENED_ID:
        return me.replica_id + me.partition_id
    return me.replica_id


def require_alone(
    participants: Participants, me: Participant, *, has_global_ids: bool = True
) -> None:
    """Raise InvalidArgumentError unless the run's group is the run alone."""
    if not participants.groups.groups:
        return
    number = my_number(participants.mode(has_global_ids=has_global_ids), me)
    if participants.groups.group_of(number) != (number,):
        raise only_one(number, f"groups {participants.groups}")


def require_one_part(instruction: HloInstruction, sizes: Sequence[int], me: Participant) -> None:
    """Raise InvalidArgumentError unless the run is alone and each operand is as large as its part.

    `sizes` are those of the parts, in the dimension in which the operation joins or cuts.
    """
    attributes = instruction.attributes
    require_alone(attributes.participants, me)
    for operand, size in zip(instruction.operands, sizes, strict=True):
        if size != operand.shape.dimensions[attributes.dimension]:
            number = my_number(attributes.participants.mode(), me)
            raise only_one(number, f"a result of {size} in dimension {attributes.dimension}")


def only_one(number: int, got: str) -> InvalidArgumentError:
    """The error of an instruction that asks for other participants."""
    return InvalidArgumentError(
        f"a program on one replica can only exchange data with itself, number {number}, got {got}",
        hint="lower the program for one device",
    )


def zeros(shape: Shape) -> Value:
    """Return zeros of a shape: a value that was not sent, or the context of a half."""
    if shape.is_tuple:
        return tuple(map(zeros, shape.tuple_shapes))
    if shape.is_token:
        return TOKEN
    return np.zeros(shape.dimensions, shape.element_type.dtype)


def alone_or_tuple(results: Sequence[Exchange]) -> Exchange:
    """The only result, or all of them: how variadic operations give their results."""
    return results[0] if len(results) == 1 else tuple(results)


def all_operands(instruction: HloInstruction) -> Exchange:
    """The operands as results."""
    return alone_or_tuple(range(len(instruction.operands)))


def reduction(instruction: HloInstruction, me: Participant) -> Exchange:
    """The operands of a reduction between replicas: one has nothing to combine them with."""
    require_alone(instruction.attributes.participants, me)
    return all_operands(instruction)


def evaluate_done(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The result of an operation in halves: its first half gave the operands, and that."""
    return cast(tuple[Value, ...], operands[0])[1]
