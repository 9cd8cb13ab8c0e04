"""Memory shared by the ranks of one machine, in which participants meet in native code.

Each rank owns a region: slots (the state of a member at a collective) first, then areas (its
operands). An execution on several ranks gets a part, the same of every region, and each rank
computes the addresses of all members' slots and areas by the same rule.
"""

import ctypes
import dataclasses
import heapq
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xla_host.environment_variables import WINDOW_DIRECTORY
from xla_server.runtime.collective_records import SLOT_BYTES, MemberAddresses

if TYPE_CHECKING:
    from mpi4py import MPI

_LOG = logging.getLogger(__name__)

PARTS = 8
"""Number of executions that can share the regions at a time. Part 0 has half of the bytes for
areas, and each further part half of the one before."""

SLOTS = 128
"""Slots of one execution in each region: one per collective and participant of the rank."""

_SLOT_BYTES = PARTS * SLOTS * SLOT_BYTES
"""Size of the slots of a region in bytes. Areas never overlap them: stamps in slots are compared,
so they must not be operands of an earlier run."""

_UNIT = 1 << 20
"""Granularity of a region's size, in bytes."""

_SHARE = 4
"""Multiple of all regions' bytes that the file system must have free: MPI's messages need some of
it."""

_ALIGNMENT = 64
"""Alignment of areas in bytes: a cache line, so that no two members write to the same one."""

_DEFAULT_DIRECTORY = "/dev/shm"
"""Directory of Open MPI's shared windows, unless its parameter names another one."""


@dataclasses.dataclass(frozen=True, slots=True)
class SharedRegions:
    """The addresses of the regions of this machine's ranks, by rank; `size` bytes each.

    `memory` is MPI's window, which must stay alive.
    """

    addresses: Mapping[int, int]
    size: int
    memory: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class RegionPart:
    """The part of an execution in all regions, from 0.

    The stamps of its visits begin with `first_stamp`.
    """

    number: int
    first_stamp: int


class RegionParts:
    """Rank 0's allocator of parts of the regions. Thread-safe.

    A first stamp is a time in nanoseconds, and a visit takes longer than one. So each stamp is
    greater than all that an earlier execution left in the slots, and none of those is mistaken for
    a visit to come.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free = [*range(PARTS)]
        self._last = 0

    def acquire(self) -> RegionPart | None:
        """Return the largest part that is free; None if none is."""
        with self._lock:
            if not self._free:
                return None
            self._last = max(self._last + 2, time.monotonic_ns() & ~1)
            return RegionPart(heapq.heappop(self._free), self._last)

    def release(self, part: RegionPart | None) -> None:
        """Release a part; no participant of its execution may access it any more."""
        if part is not None:
            with self._lock:
                heapq.heappush(self._free, part.number)


class _CollectiveOffsets(NamedTuple):
    """Offsets of a collective: its first slot, and its two areas within those of a participant."""

    slot: int
    area: int
    stride: int


class SharedSlots:
    """The addresses of an execution's slots and areas in the regions of this machine.

    `ranks` has the rank of each participant, and `sizes` the bytes of a participant's operands at
    each collective of the program, 0 for one that uses messages. One that does not fit is left
    out and uses messages, too. All ranks of a machine compute the same.
    """

    def __init__(
        self, regions: SharedRegions, part: RegionPart, ranks: Sequence[int], sizes: Sequence[int]
    ) -> None:
        self._regions = regions
        self._ranks = ranks
        counts = Counter[int]()
        self._places = [counts.update([rank]) or counts[rank] - 1 for rank in ranks]
        most = max(counts.values())
        areas = (regions.size - _SLOT_BYTES) >> part.number + 1
        area_bytes = areas // most // _ALIGNMENT * _ALIGNMENT
        self._collectives: dict[int, _CollectiveOffsets] = {}
        used = 0
        for number, size in enumerate(sizes):
            stride = -(-size // _ALIGNMENT) * _ALIGNMENT
            slot = len(self._collectives)
            if size and used + 2 * stride <= area_bytes and (slot + 1) * most <= SLOTS:
                self._collectives[number] = _CollectiveOffsets(slot * most, used, stride)
                used += 2 * stride
        self._slots = part.number * SLOTS
        self._areas = _SLOT_BYTES + areas
        self._area_bytes = area_bytes

    def member(self, participant: int, collective: int) -> MemberAddresses | None:
        """Return a participant's addresses at a collective.

        The result is None if the participant is on another machine, or the collective did not fit.
        """
        found = self._collectives.get(collective)
        region = self._regions.addresses.get(self._ranks[participant])
        if found is None or region is None:
            return None
        place = self._places[participant]
        slot = region + (self._slots + found.slot + place) * SLOT_BYTES
        return MemberAddresses(
            slot, region + self._areas + place * self._area_bytes + found.area, found.stride
        )


def shared_regions(everyone: "MPI.Intracomm", max_bytes: int) -> SharedRegions | None:
    """Create the regions of this machine; all ranks must call this at the same time.

    The result is None if the file system is full, or if no other rank is on this machine.

    Regions have `max_bytes`, or less if the file system is small: if one rank found it full, Open
    MPI would leave the others waiting. All pages are written to now: the process would be killed by
    the first access to a page for which there is no memory.
    """
    from mpi4py import MPI

    node = MPI.Intracomm(everyone.Split_type(MPI.COMM_TYPE_SHARED, everyone.rank))
    if node.size == 1 or max_bytes < _UNIT:
        return None
    size = node.bcast(min(max_bytes, _free_bytes() // _SHARE // node.size) // _UNIT * _UNIT)
    if not size:
        _LOG.warning(
            "ranks exchange messages: to share memory, %s must have %d bytes, got %d",
            _directory(),
            _SHARE * node.size * _UNIT,
            _free_bytes(),
        )
        return None
    try:
        window = MPI.Win.Allocate_shared(size, 1, comm=node)
    except MPI.Exception as error:
        _LOG.warning("ranks exchange messages: MPI shares no memory, %s", error)
        window = None
    ranks = node.allgather(everyone.rank if window else None)
    if window is None or None in ranks:
        return None
    found = {rank: window.Shared_query(place)[0] for place, rank in enumerate(ranks)}
    ctypes.memset(found[everyone.rank].address, 0, size)
    if not node.rank:
        _LOG.info("ranks %s share %d bytes each", ranks, size)
    return SharedRegions({rank: memory.address for rank, memory in found.items()}, size, window)


def _directory() -> str:
    return WINDOW_DIRECTORY.value() or _DEFAULT_DIRECTORY


def _free_bytes() -> int:
    try:
        found = os.statvfs(_directory())
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
