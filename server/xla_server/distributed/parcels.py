"""Small arrays that ranks send each other without a word of rank 0, and that wait to be taken.

A rank sends as soon as its own members have come to a meeting, and goes on when it has what all
others sent. So it is at most one visit of a meeting ahead of any of them, which bounds what waits:
two parcels from each participant on another rank, of SMALL_BYTES at most.
"""

import struct
import threading
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from xla_server.distributed.frames import Bytes
from xla_server.distributed.world import World
from xla_server.ops.collectives.collective import SMALL_BYTES

_HEAD = struct.Struct("<QQ16s")

_TAG = 2


class Stamp(NamedTuple):
    """A visit of a meeting of a run, counted from 0; `digest` is that of meeting and form."""

    run: int
    visit: int
    digest: bytes


class Shelf:
    """Parcels that have come and were not taken. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[int, dict[Stamp, dict[int, Bytes]]] = {}
        self._oldest = 0
        self._over: set[int] = set()

    def put(self, stamp: Stamp, rank: int, content: Bytes) -> None:
        """Keep what a rank sent, also for a run that has not begun here, unless it has ended."""
        with self._lock:
            if stamp.run >= self._oldest and stamp.run not in self._over:
                visits = self._runs.setdefault(stamp.run, {})
                visits.setdefault(stamp, {})[rank] = content

    def take(self, stamp: Stamp, ranks: Collection[int]) -> Mapping[int, Bytes] | None:
        """Take what these ranks sent with a stamp; None while any of it is missing."""
        with self._lock:
            visits = self._runs.get(stamp.run, {})
            if len(visits.get(stamp, ())) < len(ranks):
                return None
            return visits.pop(stamp)

    def end(self, run: int) -> None:
        """Let go of what comes for a run, which has ended here."""
        with self._lock:
            self._over.add(run)
            self._runs.pop(run, None)

    def keep_from(self, oldest: int) -> None:
        """Note that runs before this one have ended on all ranks."""
        with self._lock:
            self._oldest = max(oldest, self._oldest)
            self._over = {run for run in self._over if run >= self._oldest}
            for run in [run for run in self._runs if run < self._oldest]:
                del self._runs[run]


class Parcels:
    """The parcels of this rank. Thread-safe; nothing waits.

    All that comes is received, also for runs that have failed: a sender is never left with its own.
    """

    def __init__(self, world: World) -> None:
        self.shelf = Shelf()
        self._comm = world.parcels
        self._looking = threading.Lock()
        self._lock = threading.Lock()
        self._sending: list[tuple[Any, Bytes]] = []
        self._receiving: list[tuple[Any, int, Bytes]] = []
        self.failure: str | None = None
        """Why nothing is received any more: what MPI says when a rank has ended."""

    def send(self, stamp: Stamp, contents: Mapping[int, Bytes]) -> None:
        """Send each rank its bytes without waiting for it."""
        from mpi4py import MPI

        head = np.frombuffer(_HEAD.pack(*stamp), np.uint8)
        for rank, content in contents.items():
            data = np.concatenate([head, content])
            try:
                sending = self._comm.Isend([data, MPI.BYTE], rank, _TAG), data
            except MPI.Exception as error:
                self.failure = str(error)
                return
            if not sending[0].Test():
                with self._lock:
                    self._sending.append(sending)

    def look(self) -> None:
        """Receive what has come, unless another thread does."""
        from mpi4py import MPI

        if self.failure is not None or not self._looking.acquire(blocking=False):
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
            if self._sending:
                with self._lock:
                    self._sending = [each for each in self._sending if not each[0].Test()]
        except (MPI.Exception, ValueError) as error:
            self.failure = str(error)
        finally:
            self._looking.release()

    def _is_received(self, request: Any, rank: int, data: Bytes) -> bool:
        if not request.Test():
            return False
        self.shelf.put(Stamp(*_HEAD.unpack_from(data.data)), rank, data[_HEAD.size :])
        return True
