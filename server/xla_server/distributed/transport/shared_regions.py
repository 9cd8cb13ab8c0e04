"""Memory that the ranks of one machine share, where participants meet in native code.

The region of a rank has seats, then areas. An execution on several ranks has an equal
part of all regions, in which every rank finds the seats and areas of all members by the same rule.
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
from xla_server.runtime.meetings import SEAT_BYTES, MemberAddresses

if TYPE_CHECKING:
    from mpi4py import MPI

_LOG = logging.getLogger(__name__)

SLOTS = 8
"""Most executions that share the regions at a time. The first has half of the areas, each
other half of the one before."""

SEATS = 128
"""Seats of an execution in each region: one per member of a meeting that the rank runs."""

_SEAT_BYTES = SLOTS * SEATS * SEAT_BYTES
"""Bytes of seats in a region. Operands are never where a seat will be: only stamps are compared."""

_UNIT = 1 << 20
"""Regions have a multiple of so many bytes."""

_SHARE = 4
"""The file system must have so many times the bytes of all regions: MPI's messages need some."""

_ALIGNMENT = 64
"""Bytes that areas begin at multiples of: a cache line, so that no two members write to one."""

_DEFAULT_DIRECTORY = "/dev/shm"
"""Directory of Open MPI's windows, unless its parameter names another."""


@dataclasses.dataclass(frozen=True, slots=True)
class SharedRegions:
    """The addresses of the regions of this machine's ranks, of `size` bytes each.

    `memory` is what keeps them.
    """

    addresses: Mapping[int, int]
    size: int
    memory: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class RegionPart:
    """The right of an execution to the parts of all regions with a number.

    The stamps of its visits begin with `first_stamp`.
    """

    slot: int
    first_stamp: int


class RegionParts:
    """The parts that rank 0 gives. Thread-safe.

    A first stamp is a time in nanoseconds, and a visit takes longer than one. So each stamp is
    greater than all that an earlier part left in the seats: none is taken for a visit to come.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free = [*range(SLOTS)]
        self._last = 0

    def take(self) -> RegionPart | None:
        """A part, the largest that is free; None if none is."""
        with self._lock:
            if not self._free:
                return None
            self._last = max(self._last + 2, time.monotonic_ns() & ~1)
            return RegionPart(heapq.heappop(self._free), self._last)

    def give_back(self, part: RegionPart | None) -> None:
        """Take a part back: no participant of its execution looks at it any more."""
        if part is not None:
            with self._lock:
                heapq.heappush(self._free, part.slot)


class _MeetingOffsets(NamedTuple):
    """The first seat of a meeting, and where its areas begin among those of a participant."""

    seat: int
    area: int
    stride: int


class SharedSeats:
    """The seats and areas of an execution in the regions of this machine.

    `ranks` has the rank of each participant, and `sizes` the bytes of a participant's operands at
    each meeting of the program, 0 where it is to be by messages. A meeting for which there is no
    room is left out. All ranks of a machine find the same.
    """

    def __init__(
        self, regions: SharedRegions, part: RegionPart, ranks: Sequence[int], sizes: Sequence[int]
    ) -> None:
        self._regions = regions
        self._ranks = ranks
        counts = Counter[int]()
        self._places = [counts.update([rank]) or counts[rank] - 1 for rank in ranks]
        most = max(counts.values())
        areas = (regions.size - _SEAT_BYTES) >> part.slot + 1
        room = areas // most // _ALIGNMENT * _ALIGNMENT
        self._meetings: dict[int, _MeetingOffsets] = {}
        used = 0
        for number, size in enumerate(sizes):
            stride = -(-size // _ALIGNMENT) * _ALIGNMENT
            seat = len(self._meetings)
            if size and used + 2 * stride <= room and (seat + 1) * most <= SEATS:
                self._meetings[number] = _MeetingOffsets(seat * most, used, stride)
                used += 2 * stride
        self._seats = part.slot * SEATS
        self._areas = _SEAT_BYTES + areas
        self._room = room

    def member(self, participant: int, meeting: int) -> MemberAddresses | None:
        """Where a participant meets; None if that is on another machine, or there is no room."""
        found = self._meetings.get(meeting)
        region = self._regions.addresses.get(self._ranks[participant])
        if found is None or region is None:
            return None
        place = self._places[participant]
        seat = region + (self._seats + found.seat + place) * SEAT_BYTES
        return MemberAddresses(
            seat, region + self._areas + place * self._room + found.area, found.stride
        )


def shared_regions(everyone: "MPI.Intracomm", max_bytes: int) -> SharedRegions | None:
    """Make the regions of this machine, as all ranks do; None if there is no room, or no other.

    Regions have `max_bytes`, or less where the file system is small: Open MPI leaves other ranks
    waiting where one finds no room. Pages are written to now: where one cannot be had later, the
    process ends.
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
