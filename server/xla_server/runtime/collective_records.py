"""Layout of the memory by which participants of an execution meet in native code.

A visit is one execution of a collective. Each participant has a record of each native collective,
in memory of its own: the group, and the addresses of each member's slot and operands. A slot is in
memory that all members share. It has the stamp of its member's last visit, a number that grows by
one, and of the visit for which its member sleeps. A member's operands are in the first area of its
data if the stamp is even, else in the second.

A member is one visit ahead of others at most: the next visit is full only when all members have
arrived at it, and they arrive after they have read the operands of this one. So two areas are
enough.
"""

import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from xla_contract.types.devices.device_grid import DeviceGrid
from xla_host.aligned import aligned_empty
from xla_server.execution.collectives_protocol import MAX_MEMBERS, CollectivePlan
from xla_server.ops.collectives.collective import channel_of
from xla_server.ops.evaluation import GroupCollective

COUNT, OWN, POSITION, STAMP, YIELDS = range(5)
"""Words of a record: COUNT of members, 0 if the host does the collective; OWN index of this
participant; POSITION of its placement; STAMP of its next visit. YIELDS is the number of polls, each
after a sched_yield, before the host polls; 0 if the participant sleeps and is woken instead."""
MEMBERS = 5
MEMBER_WORDS = 3
SLOT, DATA, STRIDE = range(MEMBER_WORDS)
"""Words of each member, from MEMBERS on: addresses of its SLOT and of its first area (DATA), and
STRIDE, the distance to the second area in bytes."""
COPY = MEMBERS + MAX_MEMBERS * MEMBER_WORDS
"""First of two words for the table of the kernel that copies an operand: target and source."""
COPIED = COPY + 2
"""Number of operands of the visit that are copied, or that threads copy at the moment."""
RECORD_WORDS = 32
"""Words of a record: all of the above, up to a multiple of a cache line."""

OPERAND_WORDS, GIVEN_WORDS = 3, 4
"""Words of each operand of a MEET, and of each argument that it sets (runtime/executor.py)."""

OF_RECORD = -2
"""Instead of a member's index: the kernel's argument is a word of the record."""

SLOT_BYTES = 64
"""Bytes of a slot: a cache line, so that polling one delays no writer of another."""

SLOT_STAMP, SLOT_SLEEPS, SLOT_OPERANDS = range(3)
"""Words of a slot: stamp of its member's last visit; stamp of the visit for which the member
sleeps; addresses of operands, if members run round-robin in one thread."""

FIRST_STAMP = 1 << 40
"""Distance of the first stamps of two executions: more visits than an execution makes.

Executions are numbered from 1, so a reused slot never has the stamp of a later visit.
"""


class MemberAddresses(NamedTuple):
    """Addresses of a member's slot and first area, and the distance to its second area in bytes."""

    slot: int
    data: int
    stride: int


POLLS = 400
"""Polls of the slots of a group, with a pause between, before a participant sleeps or yields."""

POLLED_YIELDS = 2000
"""Further polls, with a sched_yield between, of a participant that no other wakes. If other
programs use the cores too, a return to the host takes longer than these polls."""


class NativeCollectives:
    """The records of the participants of an execution at native collectives, and their slots.

    `member` maps the flattened id of a participant and the number of a collective to its addresses.
    If it returns None for a member, the host does the collective of that group. If `is_polled`, no
    participant sleeps until it is woken.
    """

    def __init__(
        self,
        plan: CollectivePlan,
        grid: DeviceGrid,
        member: Callable[[int, int], MemberAddresses | None],
        *,
        is_polled: bool = False,
    ) -> None:
        self.plan, self.grid = plan, grid
        self.memory: Any = None
        """Owner of the memory of slots and areas, if it must live as long as this object."""
        self.round_robin = False
        self.first_stamp = 0
        self._records = np.zeros((grid.size, len(plan.collectives), RECORD_WORDS), np.int64)
        self._records[:, :, YIELDS] = POLLED_YIELDS if is_polled else 0
        self._collectives: dict[tuple[int, int], GroupCollective] = {}
        for number, native in enumerate(plan.collectives):
            i, slots = native.instruction, [member(each, number) for each in range(grid.size)]
            for each, (group, position) in enumerate(native.placements):
                addresses = [found for other in group if (found := slots[other])]
                if len(addresses) == len(group):
                    self._collectives[each, number] = GroupCollective(
                        i.name, i.opcode, channel_of(i), group
                    )
                    assert len(group) <= MAX_MEMBERS
                    words = self._records[each, number]
                    words[:STAMP] = len(group), group.index(each), position
                    flat = np.array(addresses, np.int64).reshape(-1)
                    words[MEMBERS : MEMBERS + len(flat)] = flat

    def begin(self, first_stamp: int = 0) -> None:
        """Begin an execution, with stamps above those of all earlier executions in this memory."""
        self.first_stamp = first_stamp or self.first_stamp + FIRST_STAMP
        self._records[:, :, STAMP] = self.first_stamp

    def address(self, participant: int) -> int:
        """Return the address of the records of a participant."""
        address: int = self._records[participant].ctypes.data
        return address

    @property
    def are_complete(self) -> bool:
        """Return whether all collectives of all participants are native."""
        return bool(self._records[:, :, COUNT].all())

    def visit(self, participant: int, number: int) -> "Visit":
        """Return the visit of a collective at which a participant has arrived."""
        record = self._records[participant, number]
        return Visit(self._collectives[participant, number], number, record)

    def visits(self, participant: int) -> Iterator[tuple[GroupCollective, int]]:
        """Yield the collectives at which a participant has been, and the index of its last visit.

        The participant must not be in native code.
        """
        for (member, number), collective in self._collectives.items():
            if member == participant:
                record = self._records[participant, number]
                slot = record[MEMBERS + MEMBER_WORDS * record[OWN] + SLOT]
                visit = words_at(int(slot), 1)[SLOT_STAMP] - self.first_stamp
                if visit >= 0:
                    yield collective, int(visit)


class Visit:
    """A visit of a native collective, as one participant sees it before it has left."""

    __slots__ = ("_slots", "collective", "number", "stamp")

    def __init__(self, collective: GroupCollective, number: int, record: Any) -> None:
        self.collective = collective
        self.number = number
        self.stamp = int(record[STAMP])
        slots = record[MEMBERS + SLOT : MEMBERS + MEMBER_WORDS * int(record[COUNT]) : MEMBER_WORDS]
        self._slots = [words_at(int(address), SLOT_BYTES // 8) for address in slots]

    def missing(self) -> list[int]:
        """Return the flattened ids of the members that have not arrived."""
        return [
            member
            for member, slot in zip(self.collective.members, self._slots, strict=True)
            if slot[SLOT_STAMP] < self.stamp
        ]

    def mark_awake(self, participant: int) -> None:
        """Clear the mark that a member sleeps: the caller, or a member that it wakes."""
        self._slots[self.collective.members.index(participant)][SLOT_SLEEPS] = 0


def words_at(address: int, count: int) -> Any:
    """Return the int64 words at an address, as a view; the memory must outlive it."""
    memory: Any = ctypes.c_int64 * count
    return memory.from_address(address)


def local_collectives(
    plan: CollectivePlan, grid: DeviceGrid, *, round_robin: bool
) -> NativeCollectives:
    """Return collectives for an execution whose participants are all in this process.

    Collectives without areas are native only if participants run `round_robin`.
    """
    count = len(plan.collectives)
    slots = aligned_empty((grid.size * count * SLOT_BYTES,), np.uint8)
    slots[:] = 0
    areas = aligned_empty((grid.size * plan.byte_size,), np.uint8)
    offsets = list(itertools.accumulate((2 * size for size in plan.areas), initial=0))

    def member(participant: int, number: int) -> MemberAddresses | None:
        if not (plan.areas[number] or round_robin):
            return None
        slot = slots.ctypes.data + SLOT_BYTES * (participant * count + number)
        data = areas.ctypes.data + participant * plan.byte_size + offsets[number]
        return MemberAddresses(slot, data, plan.areas[number])

    made = NativeCollectives(plan, grid, member)
    made.memory = slots, areas
    made.round_robin = round_robin
    return made


def meets_natively(records: int, number: int) -> bool:
    """Return whether native code does a collective, from the address of the records, or 0."""
    return records != 0 and bool(words_at(records + 8 * RECORD_WORDS * number, 1)[0])
