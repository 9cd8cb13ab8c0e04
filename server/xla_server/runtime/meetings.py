"""Memory layout of the rendezvous (meetings) of participants in native code, in int64 words.

For each native meeting of a program a participant has a record of its own: the group, and the
addresses of each member's seat and operands. A seat is in memory that all members share. It has the
stamp of the visit at which its member has arrived, and whether the member sleeps. The operands of
visit `stamp` are in the first area of the member's data if the stamp is even, else in the second.

A member is at most one visit ahead of others: the next visit is full only when all have arrived,
and they arrive after they have read all that they need of this one. So two areas are enough.
"""

import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from xla_contract.types.devices.device_grid import DeviceGrid
from xla_host.aligned import aligned_empty
from xla_server.execution.collectives_protocol import MAX_MEMBERS, MeetingPlan
from xla_server.ops.collectives.collective import channel_of
from xla_server.ops.evaluation import Meeting

COUNT, OWN, POSITION, STAMP, YIELDS = range(5)
"""Words of a record: members of the group, 0 if the meeting is not native; the index of this
participant; the position of its placement; the stamp of its next visit. Last is the number of polls
between which it yields to others before the host polls, 0 if it sleeps and is woken."""
MEMBERS = 5
MEMBER_WORDS = 3
SEAT, DATA, STRIDE = range(MEMBER_WORDS)
"""Words of each member, from MEMBERS on: the address of its seat, that of its first area, and the
bytes from there to the second."""
COPY = MEMBERS + MAX_MEMBERS * MEMBER_WORDS
"""First of two words for the table of the kernel that copies an operand: target and source."""
COPIED = COPY + 2
"""Operands that were copied for the visit, while threads copy one."""
RECORD_WORDS = 32
"""Words of a record: all of the above, up to a multiple of a cache line."""

OPERAND_WORDS, GIVEN_WORDS = 3, 4
"""Words of each operand of a row, and of each buffer of its kernels (runtime/executor.py)."""

OF_RECORD = -2
"""Replaces a member's index if a kernel's buffer is a word of the record."""

SEAT_BYTES = 64
"""Bytes of a seat: a cache line, so that a member that polls disturbs no other."""

SEAT_STAMP, SEAT_SLEEPS, SEAT_OPERANDS = range(3)
"""Words of a seat: stamps of the last visit, and of that for which its member sleeps; addresses of
operands, if members take turns."""

FIRST_STAMP = 1 << 40
"""Stamps of an execution begin at its number, which is above 0, times this.

Seats may be used again, and never have the stamp of a visit to come.
"""


class MemberAddresses(NamedTuple):
    """Addresses of a member's seat and first area, and bytes from that area to the next."""

    seat: int
    data: int
    stride: int


LOOKS = 400
"""Polls of the seats of a group before a participant goes to sleep, or yields to others."""

POLLED_YIELDS = 2000
"""Polls of a participant that yields between them and is not woken. If other programs use the
cores, too, returning to the host and back costs more."""


class Meetings:
    """The records of the participants of an execution at native meetings, and their seats.

    `member` returns the addresses of a participant, by its flattened id, at a meeting, by number.
    If it has none, its group meets by the host. If `is_polled`, no participant has to be woken.
    """

    def __init__(
        self,
        plan: MeetingPlan,
        grid: DeviceGrid,
        member: Callable[[int, int], MemberAddresses | None],
        *,
        is_polled: bool = False,
    ) -> None:
        self.plan, self.grid = plan, grid
        self.memory: Any = None
        """The memory of seats and areas, if this object must keep it alive."""
        self.in_turns = False
        self.first_stamp = 0
        self._records = np.zeros((grid.size, len(plan.meetings), RECORD_WORDS), np.int64)
        self._records[:, :, YIELDS] = POLLED_YIELDS if is_polled else 0
        self._meetings: dict[tuple[int, int], Meeting] = {}
        for number, native in enumerate(plan.meetings):
            i, seats = native.instruction, [member(each, number) for each in range(grid.size)]
            for each, (group, position) in enumerate(native.placements):
                places = [found for other in group if (found := seats[other])]
                if len(places) == len(group):
                    self._meetings[each, number] = Meeting(i.name, i.opcode, channel_of(i), group)
                    assert len(group) <= MAX_MEMBERS
                    words = self._records[each, number]
                    words[:STAMP] = len(group), group.index(each), position
                    flat = np.array(places, np.int64).reshape(-1)
                    words[MEMBERS : MEMBERS + len(flat)] = flat

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
        """The visit of a meeting at which a participant has arrived."""
        record = self._records[participant, number]
        return Visit(self._meetings[participant, number], number, record)

    def visits(self, participant: int) -> Iterator[tuple[Meeting, int]]:
        """The meetings at which a participant has arrived, each with its last visit, from 0.

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
        """Record that a member no longer sleeps: the caller, or one that is still blocked."""
        self._seats[self.meeting.members.index(participant)][SEAT_SLEEPS] = 0


def words_at(address: int, count: int) -> Any:
    """The int64 words at an address, as an array; memory must outlive it."""
    memory: Any = ctypes.c_int64 * count
    return memory.from_address(address)


def local_meetings(plan: MeetingPlan, grid: DeviceGrid, *, in_turns: bool) -> Meetings:
    """Meetings in memory of this process, for an execution whose participants are all in it.

    Meetings without areas are native `in_turns` alone.
    """
    count = len(plan.meetings)
    seats = aligned_empty((grid.size * count * SEAT_BYTES,), np.uint8)
    seats[:] = 0
    areas = aligned_empty((grid.size * plan.byte_size,), np.uint8)
    offsets = list(itertools.accumulate((2 * size for size in plan.areas), initial=0))

    def member(participant: int, number: int) -> MemberAddresses | None:
        if not (plan.areas[number] or in_turns):
            return None
        seat = seats.ctypes.data + SEAT_BYTES * (participant * count + number)
        data = areas.ctypes.data + participant * plan.byte_size + offsets[number]
        return MemberAddresses(seat, data, plan.areas[number])

    made = Meetings(plan, grid, member)
    made.memory = seats, areas
    made.in_turns = in_turns
    return made


def meets_natively(records: int, number: int) -> bool:
    """Return whether a meeting is one of native code, by the address of a participant's records."""
    return records != 0 and bool(words_at(records + 8 * RECORD_WORDS * number, 1)[0])
