"""The common part of collectives' evaluators: members of groups, and memory of results.

Each operation says how a participant writes its results, or its share of results that all have in
common, from the operands of its group (`Collective`). Groups are those of the device grid that the
program runs on; a participant alone in its group keeps its operands.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.devices.replica_groups import Groups
from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.participants import check_participants_exist, groups_of
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import (
    Array,
    Crossing,
    Evaluator,
    Frame,
    GroupCollective,
    Reduction,
    Route,
    Value,
    zeros,
)

SMALL_BYTES = 1 << 16
"""Operands of a group up to this many bytes are combined by the last to arrive: waking others to
share the work takes longer."""

EAGER_BYTES = 1 << 24
"""Operands of a group up to this many bytes are sent to other hosts without a request."""


class Part(NamedTuple):
    """The operands of one member of a group, and the arrays that take its results.

    If `is_total`, the operands are the results of the whole group, which hosts have reduced. If
    `is_copy`, the member is on another host, and others do its work here.
    """

    operands: Sequence[Array]
    results: Sequence[Array]
    is_total: bool = False
    is_copy: bool = False


class Group(NamedTuple):
    """A group that has met: its members in order, what each gave, and the run of one of them.

    Results that are equal for all are made in shares by `workers`, numbers in the order of members;
    by none if they exist already.
    """

    instruction: HloInstruction
    members: Sequence[int]
    parts: Sequence[Part]
    frame: Frame
    workers: Sequence[int]

    @property
    def shares(self) -> int:
        """The number of shares."""
        return len(self.workers)

    def results(self, number: int) -> list[Array]:
        """The different arrays that take a result which is equal for all members."""
        return list(
            {id(p.results[number]): p.results[number] for p in self.parts if p.results}.values()
        )


class Read(NamedTuple):
    """The operands of one member, the source, as another one reads them.

    `source` and `target` are numbers in the order of the group.
    """

    instruction: HloInstruction
    members: Sequence[int]
    grid: DeviceGrid
    operands: Sequence[Array]
    source: int
    target: int


Fill: TypeAlias = Callable[[Group, int], None]
Reads: TypeAlias = Callable[[Read], Sequence[Array]]
PartOfResult: TypeAlias = Callable[[Group, Array, int], Array]
Reductions: TypeAlias = Callable[[HloInstruction, Frame], Reduction | None]
Sizes: TypeAlias = Callable[[HloInstruction, Sequence[Array], int], "list[tuple[int, ...]]"]


def whole(read: Read) -> Sequence[Array]:
    """All operands."""
    return read.operands


def block(array: Array, dimension: int, count: int, number: int) -> Array:
    """One of `count` equal blocks of an array along a dimension."""
    size = array.shape[dimension] // count
    part: Array = array[(slice(None),) * dimension + (slice(number * size, (number + 1) * size),)]
    return part


def _same_sizes(
    instruction: HloInstruction, operands: Sequence[Array], count: int
) -> list[tuple[int, ...]]:
    return [operand.shape for operand in operands]


@dataclasses.dataclass(frozen=True, slots=True)
class Collective:
    """Writer of a collective's results.

    `fill` writes those of one member, by its index in the group, or, where `is_common`, one share
    of the results that are equal for all, by its number. `sizes` are the dimensions of results for
    operands and a size of group. `keeps` says that one alone keeps its operands. `reads` are the
    parts of operands that `fill` reads for one member, by a `route`; `part` is what it writes of a
    result that all have in common, for one share. `reduces` is the operation of an instruction that
    hosts may reduce with, if it has one.
    """

    fill: Fill
    route: Route
    reads: Reads | None = whole
    part: PartOfResult | None = None
    sizes: Sizes = _same_sizes
    reduces: Reductions | None = None
    is_common: bool = False
    keeps: bool = True


def exchanged(
    exchange: Collective,
    instruction: HloInstruction,
    operands: Sequence[Array],
    frame: Frame,
    targets: Sequence[Array] | None = None,
) -> Sequence[Array]:
    """The results of a collective for one participant.

    They are `targets` if these are given and anything is exchanged; the result may be the
    operands. Results that are equal for all may be shared, and are never written again.
    Raises InvalidArgumentError if groups do not fit the grid, or operands differ in shape
    between the members; and what Collectives.exchange raises.
    """
    participants = frame.participants
    me = participants.grid.flattened(participants.replica_id, participants.partition_id)
    members = _members(instruction, frame, me)
    if members is None:
        return [np.zeros_like(operand) for operand in operands]
    if len(members) == 1 and exchange.keeps:
        return operands
    operands = [part if part.flags.c_contiguous else part.copy() for part in operands]

    def fresh() -> list[Array]:
        sizes = exchange.sizes(instruction, operands, len(members))
        kinds = [operand.dtype for operand in operands]
        return [np.empty(size, kind) for size, kind in zip(sizes, kinds, strict=False)]

    def crossing() -> Crossing:
        return _crossing(exchange, instruction, given, members, frame, size)

    size = len(members) * sum(operand.nbytes for operand in operands)
    is_small = size <= SMALL_BYTES

    def share(parts: Sequence[Part]) -> Group:
        if parts[0].is_total:
            return _of_totals(instruction, members, parts, frame)
        require_equal_shapes(parts)
        if exchange.is_common and targets is None:
            common = fresh()
            parts = [part._replace(results=common) for part in parts]
        workers: Sequence[int] = range(1 if is_small and exchange.is_common else len(members))
        if not is_small and any(part.is_copy for part in parts):
            workers = [position for position in workers if not parts[position].is_copy]
        group = Group(instruction, members, parts, frame, workers)
        if is_small:
            for position in workers:
                # Results of members on other hosts are made there.
                if exchange.is_common or parts[position].results:
                    exchange.fill(group, position)
        return group

    def work(group: Group, position: int) -> None:
        if group.workers:
            exchange.fill(group._replace(frame=frame), group.workers.index(position))

    needs_own = targets is None and not exchange.is_common
    given = Part(operands, fresh() if needs_own else targets or ())
    if len(members) == 1:
        group = share([given])
        if not is_small:
            work(group, 0)
    else:
        channel = channel_of(instruction)
        collective = GroupCollective(instruction.name, instruction.opcode, channel, members)
        group = participants.exchange(
            collective, given, share, None if is_small else work, crossing
        )
    return group.parts[members.index(me)].results


def _of_totals(
    instruction: HloInstruction, members: Sequence[int], parts: Sequence[Part], frame: Frame
) -> Group:
    """The group of members whose results other hosts have helped to make."""
    if not any(part.results for part in parts):
        parts = [Part(part.operands, part.operands) for part in parts]
    for part in parts:
        for result, total in zip(part.results, part.operands, strict=False):
            if result is not total:
                result[...] = total
    return Group(instruction, members, parts, frame, ())


def _crossing(
    exchange: Collective,
    instruction: HloInstruction,
    given: Part,
    members: tuple[int, ...],
    frame: Frame,
    size: int,
) -> Crossing:
    is_eager = size <= EAGER_BYTES
    # The whole operand of the only other member is as many bytes as half of it and of the result.
    is_pair = is_eager and len(members) == 2 and exchange.reduces is not None
    is_once = size <= SMALL_BYTES or is_pair
    is_whole = is_once and exchange.is_common
    reduces = None if is_eager else exchange.reduces
    reads = whole if is_whole else exchange.reads

    def absent(part: Part) -> Part:
        return Part([np.empty_like(each) for each in part.operands], (), is_copy=is_whole)

    def read(part: Part, source: int, target: int) -> Sequence[Array]:
        return cast(Reads, reads)(
            Read(instruction, members, frame.participants.grid, part.operands, source, target)
        )

    def written(group: Group, position: int) -> Sequence[Sequence[Array]]:
        part = cast(PartOfResult, exchange.part)
        numbers = range(len(group.parts[position].operands))
        return [
            [part(group, each, position) for each in group.results(number)] for number in numbers
        ]

    return Crossing(
        Route.WHOLE if is_whole else exchange.route,
        tuple([(operand.dtype, operand.shape) for operand in given.operands]),
        absent,
        None if reads is None else read,
        None if is_once or exchange.part is None else written,
        is_eager,
        None if reduces is None else reduces(instruction, frame),
    )


def evaluator_of(exchange: Collective, *, is_first_half: bool = False) -> Evaluator:
    """Return the evaluator of an operation that exchanges values this way.

    The value of a first half has the operands in front of the result, and zeros for whatever else
    was declared.
    """

    # The module of an operation is where its evaluator is looked for.
    @functools.wraps(exchange.fill)
    def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        arrays = cast(Sequence[Array], operands)
        result = result_value(instruction, exchanged(exchange, instruction, arrays, frame))
        if not is_first_half:
            return result
        contexts = map(zeros, instruction.shape.tuple_shapes[2:])
        return result_value(instruction, arrays), result, *contexts

    return evaluate


def result_value(instruction: HloInstruction, results: Sequence[Array]) -> Value:
    """The results as the value of a whole operation or its first half."""
    is_split = instruction.opcode is Opcode.ALL_TO_ALL and instruction.shape.is_tuple
    value: Value = tuple(results) if is_split or len(results) > 1 else results[0]
    return value


def are_all_alone(groups: Groups, count: int) -> bool:
    """Return whether the groups are `count` members, each alone."""
    return len(groups) == count and all(len(group) == 1 for group in groups)


def evaluate_done(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The result of an operation in halves: its first half gave the operands, and that."""
    return cast(tuple[Value, ...], operands[0])[1]


def _members(instruction: HloInstruction, frame: Frame, me: int) -> tuple[int, ...] | None:
    grid = frame.participants.grid
    if grid.size > 1:
        # The verifier has checked it for this grid.
        groups = groups_of(instruction, grid)
    else:
        try:
            groups = check_participants_exist(instruction, grid)
        except ShapeError as error:
            raise InvalidArgumentError(
                error.message,
                hint="run the program on as many replicas and partitions as it is written for",
            ) from None
    return next((group for group in groups if me in group), None)


def channel_of(instruction: HloInstruction) -> int:
    """Return the channel of a collective; 0 for none."""
    attributes = instruction.attributes
    participants = getattr(attributes, "participants", attributes)
    channel: int = participants.channel_id
    return channel


def require_equal_shapes(parts: Sequence[Part]) -> None:
    """Raise InvalidArgumentError if members gave operands of different dimensions."""
    first = [operand.shape for operand in parts[0].operands]
    for part in parts[1:]:
        shapes = [operand.shape for operand in part.operands]
        if shapes != first:
            raise InvalidArgumentError(
                f"operands must have equal dimensions on all participants, got {first[:4]} and "
                f"{shapes[:4]}"
            )
