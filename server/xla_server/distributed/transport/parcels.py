"""Parcels: arrays sent directly between ranks without permission of rank 0, kept until taken.

A rank sends as soon as its own members have arrived at a collective, and continues once it has what
all others sent. So it is at most one visit ahead of any other rank, which bounds what is kept: two
parcels of at most SMALL_BYTES from each participant on another rank. For a larger array only a
header is sent at once; its bytes stay with the sender until the receiver has memory for them.
"""

import dataclasses
import itertools
import struct
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from xla_server.distributed.transport.frames import Bytes
from xla_server.distributed.transport.world import World
from xla_server.ops.collectives.collective import EAGER_BYTES, SMALL_BYTES

_HEAD = struct.Struct("<QQ16sQH")

_TAG = 2
_LARGE_TAGS = range(3, 1 << 14)
"""Tags for the bytes of large parcels, used in turn."""


class Stamp(NamedTuple):
    """Key of a parcel: run, visit of the collective from 0, digest of collective, form and step."""

    run: int
    visit: int
    digest: bytes


class LargeHeader(NamedTuple):
    """The header of a large parcel: its `size` bytes are still to be received, with MPI's `tag`."""

    rank: int
    tag: int
    size: int


Content: TypeAlias = "Bytes | LargeHeader"


class ReceivedParcels:
    """Parcels that were received and not taken yet. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[int, dict[Stamp, dict[int, Content]]] = {}
        self._oldest = 0
        self._over: set[int] = set()

    def put(self, stamp: Stamp, rank: int, content: Content) -> bool:
        """Store a parcel, also for a run that has not begun here; False if the run has ended."""
        with self._lock:
            if stamp.run < self._oldest or stamp.run in self._over:
                return False
            visits = self._runs.setdefault(stamp.run, {})
            visits.setdefault(stamp, {})[rank] = content
            return True

    def pop(self, stamp: Stamp) -> Mapping[int, Content]:
        """Remove and return the parcels that have a stamp, by rank."""
        with self._lock:
            visits = self._runs.get(stamp.run)
            return {} if visits is None else visits.pop(stamp, {})

    def end(self, run: int) -> list[Content]:
        """Mark a run as ended here; remove and return its parcels."""
        with self._lock:
            self._over.add(run)
            return _contents([self._runs.pop(run, {})])

    def keep_from(self, oldest: int) -> list[Content]:
        """Note that runs before `oldest` have ended on all ranks; return and drop their parcels."""
        with self._lock:
            self._oldest = max(oldest, self._oldest)
            self._over = {run for run in self._over if run >= self._oldest}
            ended = [run for run in self._runs if run < self._oldest]
            return _contents([self._runs.pop(run) for run in ended])


def _contents(runs: Iterable[Mapping[Stamp, Mapping[int, Content]]]) -> list[Content]:
    return [each for visits in runs for ranks in visits.values() for each in ranks.values()]


class Parcels:
    """The parcels of this rank. Thread-safe; no method waits.

    All parcels are received, also those of runs that have failed, so that no sender has to keep its
    memory for them.
    """

    def __init__(self, world: World) -> None:
        self._inbox = ReceivedParcels()
        self._comm = world.parcels
        self._polling = threading.Lock()
        self._lock = threading.Lock()
        self._tags = itertools.cycle(_LARGE_TAGS)
        self._under_way: list[tuple[Any, Bytes | bytes]] = []
        """Messages being sent, and messages being received only to be dropped."""
        self._receiving: list[tuple[Any, int, Bytes]] = []
        self.kept: list[Delivery] = []
        """Messages whose memory MPI may use forever, since a rank has ended."""
        self.failure: str | None = None
        """The reason why parcels are no longer received: MPI's error when a rank has ended."""

    def exchange(
        self, stamp: Stamp, sent: Mapping[int, Bytes], received: Mapping[int, Bytes]
    ) -> "Delivery":
        """Begin to send bytes to other ranks, and to receive theirs with this stamp."""
        return Delivery(self, stamp, [*self._sent(stamp, sent)], dict(received))

    def end(self, run: int) -> None:
        """Drop the parcels of a run that has ended here, and all that arrive later."""
        self._drop(self._inbox.end(run))

    def keep_from(self, oldest: int) -> None:
        """Record that all runs before `oldest` have ended on all ranks."""
        self._drop(self._inbox.keep_from(oldest))

    def poll(self) -> None:
        """Receive parcels that have arrived, unless another thread is doing so."""
        from mpi4py import MPI

        if self.failure is not None or not self._polling.acquire(blocking=False):
            return
        try:
            status = MPI.Status()
            while (found := self._comm.Improbe(MPI.ANY_SOURCE, _TAG, status)) is not None:
                size = status.Get_count(MPI.BYTE)
                if not _HEAD.size <= size <= _HEAD.size + SMALL_BYTES:
                    raise ValueError(f"a parcel must have at most {SMALL_BYTES} bytes, got {size}")
                data = np.empty(size, np.uint8)
                self._receiving.append((found.Irecv([data, MPI.BYTE]), status.source, data))
            pending = self._receiving
            if pending:
                self._receiving = [each for each in pending if not self._is_received(*each)]
            if self._under_way:
                with self._lock:
                    self._under_way = [each for each in self._under_way if not each[0].Test()]
        except (MPI.Exception, ValueError) as error:
            self.failure = str(error)
        finally:
            self._polling.release()

    def arrived(self, stamp: Stamp, into: dict[int, Bytes]) -> list[Any]:
        """Poll, and remove the memory of the parcels that have arrived with a stamp from `into`.

        Small parcels are copied to it; for large ones MPI's requests are returned.
        """
        self.poll()
        requests: list[Any] = []
        for rank, content in self._inbox.pop(stamp).items():
            memory = into.pop(rank)
            if isinstance(content, LargeHeader):
                requests += self._received(content, memory)
            else:
                memory[:] = content
        return requests

    def are_done(self, requests: list[Any]) -> bool:
        """Return whether all of these MPI requests have completed without an error."""
        from mpi4py import MPI

        try:
            return self.failure is None and all(request.Test() for request in requests)
        except MPI.Exception as error:
            self.failure = str(error)
            return False

    def _sent(self, stamp: Stamp, contents: Mapping[int, Bytes]) -> Iterable[Any]:
        """Send each rank its bytes; yield the MPI requests that use the caller's memory."""
        from mpi4py import MPI

        try:
            for rank, content in contents.items():
                is_large = content.size > SMALL_BYTES
                tag = next(self._tags) if is_large else 0
                data = _HEAD.pack(*stamp, content.size if is_large else 0, tag)
                if not is_large:
                    data += content.data
                sending = self._comm.Isend([data, MPI.BYTE], rank, _TAG), data
                if not sending[0].Test():
                    with self._lock:
                        self._under_way.append(sending)
                if is_large:
                    yield self._comm.Isend([content, MPI.BYTE], rank, tag)
        except MPI.Exception as error:
            self.failure = str(error)

    def _received(self, content: LargeHeader, memory: Bytes) -> list[Any]:
        from mpi4py import MPI

        try:
            return [self._comm.Irecv([memory, MPI.BYTE], content.rank, content.tag)]
        except MPI.Exception as error:
            self.failure = str(error)
            return []

    def _drop(self, contents: Iterable[Content]) -> None:
        for content in contents:
            if isinstance(content, LargeHeader):
                memory = np.empty(content.size, np.uint8)
                requests = self._received(content, memory)
                with self._lock:
                    self._under_way += [(each, memory) for each in requests]

    def _is_received(self, request: Any, rank: int, data: Bytes) -> bool:
        if not request.Test():
            return False
        *stamp, size, tag = _HEAD.unpack_from(data.data)
        content: Content = data[_HEAD.size :]
        if size:
            if size > EAGER_BYTES or tag not in _LARGE_TAGS:
                raise ValueError(f"a parcel must have at most {EAGER_BYTES} bytes, got {size}")
            content = LargeHeader(rank, tag, size)
        if not self._inbox.put(Stamp(*stamp), rank, content):
            self._drop([content])
        return True


@dataclasses.dataclass(eq=False)
class Delivery:
    """The transfers between this rank and others at one visit. For one thread.

    It `is_done` when everything has been received and the memory that was sent may change. A
    thread that gives up before must wait until it `may_abandon`: MPI uses the memory until then.
    """

    _parcels: Parcels
    _stamp: Stamp
    _requests: list[Any]
    """MPI's requests that have not completed."""
    _missing: dict[int, Bytes]
    """The memory for parcels that have not arrived, by rank."""

    def is_done(self) -> bool:
        """Continue without waiting; return whether all transfers have completed."""
        if self._missing:
            self._requests += self._parcels.arrived(self._stamp, self._missing)
        return not self._missing and self._are_requests_done()

    def may_abandon(self, *, is_lost: bool) -> bool:
        """Return whether the thread need not wait any more.

        Either MPI has stopped using the memory, or a rank is lost for good, and the memory is then
        kept alive for ever, as MPI may still use it.
        """
        if self._are_requests_done():
            return True
        if is_lost or self._parcels.failure is not None:
            self._parcels.kept.append(self)
            return True
        return False

    def _are_requests_done(self) -> bool:
        return not self._requests or self._parcels.are_done(self._requests)
