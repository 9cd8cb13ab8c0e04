"""The words by which participants of an execution meet in native code.

Each native meeting of a program has a record in a participant's own words: its group, and where
each member's seat and operands are. A seat is in memory that all members see. It has the stamp of
the visit to which its member has come, and whether the member sleeps. The operands of visit `stamp`
are in the first area of the member's data where the stamp is even, else in the second.

A member is one visit ahead of others at most: the next visit is full only when all have come to
it, and they come when they have read what they need of this one. So two areas are enough.
"""

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from xla_contract.types.device_grid import DeviceGrid
from xla_server.codegen.instructions.instruction import instruction_of
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.execution.collectives_protocol import MeetingPlan
from xla_server.ir.participants import groups_of
from xla_server.ops.collectives.collective import channel_of
from xla_server.ops.evaluation import Meeting
from xla_server.runtime.copies import COPY_BYTES
from xla_server.runtime.native import HAS_CYCLES, callee, copy_bytes, foreign, read, write

MAX_MEMBERS = 8
"""Members of the largest group that meets in native code."""

COUNT, OWN, STAMP, YIELDS = range(4)
"""Words of a record: members of the group, 0 where the meeting is none of native code; the index of
this participant; the stamp of its next visit. Last are the looks between which it gives way to
other threads before the host polls, 0 where it sleeps and is woken."""
MEMBERS = 4
MEMBER_WORDS = 3
SEAT, DATA, STRIDE = range(MEMBER_WORDS)
"""Words of each member, from MEMBERS on: the address of its seat, that of its first area, and the
bytes from there to the second."""
COPY = MEMBERS + MAX_MEMBERS * MEMBER_WORDS
"""First of two words for the table of the kernel that copies an operand: target and source."""
COPIED = COPY + 2
"""Operands that were copied for the visit, while threads copy one."""
RECORD_WORDS = 32

OPERAND_WORDS = 3
"""Words of each operand of a row (runtime/executor.py)."""

SEAT_BYTES = 64
SEAT_STAMP, SEAT_SLEEPS = range(2)
"""Words of a seat: stamps of the last visit, and of that for which its member sleeps."""

FIRST_STAMP = 1 << 40
"""Stamps of an execution begin at its number, which is above 0, times this.

Seats may be used again, and never have the stamp of a visit to come.
"""


class Member(NamedTuple):
    """Where a member meets: addresses of its seat and first area, bytes from there to the next."""

    seat: int
    data: int
    stride: int


def write_record(words: Any, members: Sequence[Member], own: int, stamp: int) -> None:
    """Write the record of one meeting to RECORD_WORDS words; no members for one of the host.

    Members are in the order of the group, this participant is number `own`.
    """
    assert len(members) <= MAX_MEMBERS
    words[: STAMP + 1] = len(members), own, stamp
    flat = np.array(members, np.int64).reshape(-1)
    words[MEMBERS : MEMBERS + len(flat)] = flat


LOOKS = 400
"""Looks at the seats of a group before a participant goes to sleep, or gives way to others."""

POLLED_YIELDS = 2000
"""Looks of a participant that gives way between them and is not woken. Where other programs have
the cores, too, the way through the host and back costs more."""


class Meetings:
    """The records of the participants of an execution at native meetings, and their seats.

    `member` says where a participant, by its flattened id, is at a meeting, by number. Where it is
    nowhere, its group meets by the host. Where it `is_polled`, no participant has to be woken.
    """

    def __init__(
        self,
        plan: MeetingPlan,
        grid: DeviceGrid,
        member: Callable[[int, int], Member | None],
        *,
        is_polled: bool = False,
    ) -> None:
        self.plan, self.grid = plan, grid
        self.memory: Any = None
        """The memory of seats and areas, where it must live as long."""
        self.first_stamp = 0
        self._records = np.zeros((grid.size, len(plan.meetings), RECORD_WORDS), np.int64)
        self._records[:, :, YIELDS] = POLLED_YIELDS if is_polled else 0
        self._meetings: dict[tuple[int, int], Meeting] = {}
        for number, native in enumerate(plan.meetings):
            i = native.instruction
            for group in groups_of(i, grid):
                if len(group) != native.members:
                    continue
                meeting = Meeting(i.name, i.opcode, channel_of(i), group)
                places = [found for each in group if (found := member(each, number))]
                if len(places) != len(group):
                    continue
                for own, each in enumerate(group):
                    self._meetings[each, number] = meeting
                    write_record(self._records[each, number], places, own, 0)

    def begin(self, first_stamp: int = 0) -> None:
        """Begin an execution, whose stamps are above those of all before in this memory."""
        self.first_stamp = first_stamp or self.first_stamp + FIRST_STAMP
        self._records[:, :, STAMP] = self.first_stamp

    def address(self, participant: int) -> int:
        """The address of the records of a participant."""
        address: int = self._records[participant].ctypes.data
        return address

    @property
    def are_complete(self) -> bool:
        """Return whether all meetings of all participants are native."""
        return bool(self._records[:, :, COUNT].all())

    def visit(self, participant: int, number: int) -> "Visit":
        """The visit of a meeting that a participant has come to."""
        record = self._records[participant, number]
        return Visit(self._meetings[participant, number], number, record)

    def visits(self, participant: int) -> Iterator[tuple[Meeting, int]]:
        """The meetings to which a participant has come, each with its last visit, from 0.

        The participant must not be in native code.
        """
        for (member, number), meeting in self._meetings.items():
            if member == participant:
                record = self._records[participant, number]
                seat = record[MEMBERS + MEMBER_WORDS * record[OWN] + SEAT]
                visit = words_at(int(seat), 1)[SEAT_STAMP] - self.first_stamp
                if visit >= 0:
                    yield meeting, int(visit)


class Visit:
    """A visit of a native meeting, as one participant sees it before it has left."""

    __slots__ = ("_seats", "meeting", "number", "stamp")

    def __init__(self, meeting: Meeting, number: int, record: Any) -> None:
        self.meeting = meeting
        self.number = number
        self.stamp = int(record[STAMP])
        seats = record[MEMBERS + SEAT : MEMBERS + MEMBER_WORDS * int(record[COUNT]) : MEMBER_WORDS]
        self._seats = [words_at(int(address), SEAT_BYTES // 8) for address in seats]

    def missing(self) -> list[int]:
        """The members that have not come, as flattened ids."""
        return [
            member
            for member, seat in zip(self.meeting.members, self._seats, strict=True)
            if seat[SEAT_STAMP] < self.stamp
        ]

    def rise(self, participant: int) -> None:
        """Say that a member does not sleep any more: the caller, or one that cannot go on yet."""
        self._seats[self.meeting.members.index(participant)][SEAT_SLEEPS] = 0


def words_at(address: int, count: int) -> Any:
    """The int64 words at an address, as an array; memory must outlive it."""
    memory: Any = ctypes.c_int64 * count
    return memory.from_address(address)


def local_meetings(plan: MeetingPlan, grid: DeviceGrid) -> Meetings:
    """Meetings in memory of this process, for an execution whose participants are all in it."""
    count = len(plan.meetings)
    seats = _aligned(grid.size * count * SEAT_BYTES)
    seats[:] = 0
    areas = _aligned(grid.size * plan.byte_size)
    sizes = (2 * each.area_bytes for each in plan.meetings)
    offsets = list(itertools.accumulate(sizes, initial=0))

    def member(participant: int, number: int) -> Member:
        seat = seats.ctypes.data + SEAT_BYTES * (participant * count + number)
        data = areas.ctypes.data + participant * plan.byte_size + offsets[number]
        return Member(seat, data, plan.meetings[number].area_bytes)

    made = Meetings(plan, grid, member)
    made.memory = seats, areas
    return made


def _aligned(size: int) -> Any:
    memory = np.empty(size + SEAT_BYTES, np.uint8)
    start = -memory.ctypes.data % SEAT_BYTES
    return memory[start : start + size]


def meets_natively(records: int, number: int) -> bool:
    """Return whether a meeting is one of native code, by the address of a participant's records."""
    return records != 0 and bool(words_at(records + 8 * RECORD_WORDS * number, 1)[0])


_word = MEMORY["peek_i64"]
_set_word = MEMORY["poke_i64"]
_give_way = foreign("sched_yield", 0)


@callee  # type: ignore[untyped-decorator]
def rest(record: int, left: int) -> None:
    """Wait between two looks of which so many are left."""
    if left < _word(record, YIELDS):
        _give_way(())
    else:
        pause()


@instruction_of(types.void())
def pause(builder: Any) -> None:
    """Let the core know that this thread waits for another."""
    if HAS_CYCLES:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])


@callee  # type: ignore[untyped-decorator]
def _area(member: int, stamp: int) -> int:
    """The area of a visit, by the address of a member's words."""
    return int(_word(member, DATA) + (stamp - stamp // 2 * 2) * _word(member, STRIDE))


@callee  # type: ignore[untyped-decorator]
def arrive(record: int, words: int, slots: int) -> int:
    """Copy the operands to the area of the visit, and say so; 0, or -1 where that was done before.

    Copies of large operands are left to threads: their bytes, for which the table of their kernel
    is at COPY; once they are copied, it goes on with the next.
    """
    stamp = _word(record, STAMP)
    member = record + 8 * (MEMBERS + MEMBER_WORDS * _word(record, OWN))
    if read(_word(member, SEAT), SEAT_STAMP) == stamp:
        return -1
    area = _area(member, stamp)
    for number in range(_word(record, COPIED), _word(words, 0)):
        place = 1 + OPERAND_WORDS * number
        source, size = _word(slots, _word(words, place)), _word(words, place + 1)
        target = area + _word(words, place + 2)
        if size > 2 * COPY_BYTES:
            _set_word(record, COPY, target)
            _set_word(record, COPY + 1, source)
            _set_word(record, COPIED, number + 1)
            return int(size)
        copy_bytes(target, source, size)
    _set_word(record, COPIED, 0)
    write(_word(member, SEAT), SEAT_STAMP, stamp)
    return 0


@callee  # type: ignore[untyped-decorator]
def is_full(record: int) -> int:
    """Return 1 if all members have come to the visit, or to the next."""
    stamp = _word(record, STAMP)
    for number in range(_word(record, COUNT)):
        seat = _word(record, MEMBERS + MEMBER_WORDS * number + SEAT)
        if read(seat, SEAT_STAMP) < stamp:
            return 0
    return 1


@callee  # type: ignore[untyped-decorator]
def has_sleeper(record: int) -> int:
    """Return 1 if a member sleeps for the visit. One that is ahead sleeps for the next."""
    stamp = _word(record, STAMP)
    for number in range(_word(record, COUNT)):
        if read(_word(record, MEMBERS + MEMBER_WORDS * number + SEAT), SEAT_SLEEPS) == stamp:
            return 1
    return 0


@callee  # type: ignore[untyped-decorator]
def doze(record: int) -> int:
    """Return 1 if this participant is to sleep, which its seat then says; 0 if the visit is full.

    The member that completes the visit says so before it looks for sleepers. Here the order is the
    reverse, so one of both sees the other.
    """
    if _word(record, YIELDS) != 0:
        return 1
    own = record + 8 * (MEMBERS + MEMBER_WORDS * _word(record, OWN))
    write(_word(own, SEAT), SEAT_SLEEPS, _word(record, STAMP))
    if is_full(record) == 0:
        return 1
    write(_word(own, SEAT), SEAT_SLEEPS, 0)
    return 0


@callee  # type: ignore[untyped-decorator]
def gather(record: int, words: int, tables: int) -> None:
    """Give kernels the addresses of members' operands, and leave the visit."""
    stamp = _word(record, STAMP)
    given = words + 8 * (1 + OPERAND_WORDS * _word(words, 0))
    for number in range(_word(given, 0)):
        place = 1 + 3 * number
        member, offset = _word(given, place + 1), _word(given, place + 2)
        address = record + 8 * OWN
        if member >= 0:
            other = record + 8 * (MEMBERS + MEMBER_WORDS * member)
            address = _area(other, stamp) + offset
        _set_word(tables, _word(given, place), address)
    _set_word(record, STAMP, stamp + 1)
