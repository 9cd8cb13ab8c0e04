"""The way of the arrays of collectives: MPI's collectives among the ranks of a group."""

import contextlib
import functools
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from xla_contract.errors import ResourceExhaustedError, UnavailableError, XlaError
from xla_contract.types.devices.replica_groups import braced
from xla_contract.types.opcode import Opcode
from xla_server.distributed.reductions import operation
from xla_server.distributed.transport.frames import Bytes, bytes_of
from xla_server.distributed.transport.parcels import Parcels
from xla_server.distributed.transport.polling import poll
from xla_server.distributed.transport.world import World
from xla_server.ops.evaluation import Array
from xla_server.sessions.error_context import copy_of

MAX_BYTES = 2**31 - 1
"""Bytes that a rank sends or receives in one collective at most: MPI counts them in 31 bits."""

_BYTES_PER_SECOND = 1 << 23
"""The slowest network, in bytes a second, on which no rank is taken for one that is stuck."""

Ranks: TypeAlias = tuple[int, ...]


class _Communicator:
    """The communicator of some ranks, used by one collective after the other."""

    def __init__(self) -> None:
        self.turn = 0
        self.comm: Any = None


class Exchange:
    """Collectives of this rank with others. Any thread may call.

    The exchanges among the same ranks have turns, counted from 0, which all of them keep to. After
    a failure nothing is exchanged any more: what is under way with a rank that has gone never ends.
    `failed` is called with the first failure.
    """

    def __init__(self, world: World, seconds: float, failed: Callable[[XlaError], None]) -> None:
        self.parcels = Parcels(world)
        self.regions = world.regions
        self._world = world
        self._seconds = seconds
        self._failed = failed
        self._changed = threading.Condition()
        self._communicators: dict[Ranks, _Communicator] = {}
        self.failure: XlaError | None = None
        """Why nothing is exchanged any more."""
        self._under_way: dict[object, object] = {}
        """Memory that MPI may still use, also after a failure."""

    def fail(self, error: XlaError) -> None:
        """Let all that is under way fail, and all that comes later."""
        with self._changed:
            if self.failure is not None:
                return
            self.failure = error
            self._changed.notify_all()
        self._failed(error)

    def gather(
        self,
        ranks: Ranks,
        turn: int,
        mine: Sequence[Array],
        others: Mapping[int, Sequence[Sequence[Array]]],
    ) -> None:
        """Give all ranks the same arrays, and receive those of each: MPI's Allgather.

        Each array of another rank goes to several arrays of its size.
        """
        sizes = [
            sum(array.nbytes for array in mine)
            if rank == self._world.rank
            else sum(targets[0].nbytes for targets in others[rank])
            for rank in ranks
        ]
        starts = _starts(sizes)
        received = np.empty(sum(sizes), np.uint8)
        own = ranks.index(self._world.rank)
        _pack(mine, received[starts[own] : starts[own] + sizes[own]])
        with self._turn(ranks, turn) as comm:
            from mpi4py import MPI

            into = [received, sizes, starts, MPI.BYTE]
            self._finish(ranks, [comm.Iallgatherv(MPI.IN_PLACE, into)], received)
        for place, rank in enumerate(ranks):
            if place != own:
                unpack(received[starts[place] :], others[rank])

    def swap(
        self,
        ranks: Ranks,
        turn: int,
        mine: Mapping[int, Sequence[Array]],
        others: Mapping[int, Sequence[Array]],
    ) -> None:
        """Give each rank arrays of its own, and receive some of each: MPI's Alltoallv."""
        sent_sizes = [sum(array.nbytes for array in mine.get(rank, ())) for rank in ranks]
        sent = joined([array for rank in ranks for array in mine.get(rank, ())])
        sizes = [sum(array.nbytes for array in others.get(rank, ())) for rank in ranks]
        received = np.empty(sum(sizes), np.uint8)
        with self._turn(ranks, turn) as comm:
            from mpi4py import MPI

            request = comm.Ialltoallv(
                [sent, sent_sizes, _starts(sent_sizes), MPI.BYTE],
                [received, sizes, _starts(sizes), MPI.BYTE],
            )
            self._finish(ranks, [request], sent, received)
        for rank, start in zip(ranks, _starts(sizes), strict=True):
            unpack(received[start:], [[array] for array in others.get(rank, ())])

    def send_receive(
        self,
        ranks: Ranks,
        turn: int,
        mine: Mapping[int, Sequence[Array]],
        others: Mapping[int, Sequence[Array]],
    ) -> None:
        """Give some ranks arrays, and receive those of some: MPI's Isend and Irecv in pairs."""
        sent = {rank: joined(arrays) for rank, arrays in mine.items() if arrays}
        received = {
            rank: np.empty(sum(array.nbytes for array in arrays), np.uint8)
            for rank, arrays in others.items()
            if arrays
        }
        with self._turn(ranks, turn) as comm:
            from mpi4py import MPI

            requests = [
                comm.Irecv([data, MPI.BYTE], ranks.index(rank)) for rank, data in received.items()
            ] + [comm.Isend([data, MPI.BYTE], ranks.index(rank)) for rank, data in sent.items()]
            self._finish(ranks, requests, *sent.values(), *received.values())
        for rank, data in received.items():
            unpack(data, [[array] for array in others[rank]])

    def reduce(self, ranks: Ranks, turn: int, arrays: Sequence[Array], opcode: Opcode) -> None:
        """Overwrite these arrays by the reduction of those of all ranks: MPI's Allreduce."""
        with self._turn(ranks, turn) as comm:
            from mpi4py import MPI

            requests = [
                comm.Iallreduce(MPI.IN_PLACE, array, operation(opcode, array.dtype.kind))
                for array in arrays
            ]
            self._finish(ranks, requests, *map(bytes_of, arrays))

    @contextlib.contextmanager
    def _turn(self, ranks: Ranks, turn: int) -> Iterator[Any]:
        """The communicator of some ranks, when it is the turn of this one."""
        with self._changed:
            used = self._communicators.setdefault(ranks, _Communicator())
            self._changed.wait_for(lambda: used.turn == turn or self.failure is not None)
            if self.failure is not None:
                raise copy_of(self.failure)
        try:
            if used.comm is None:
                used.comm = self._made(ranks)
            yield used.comm
        except BaseException as error:
            # The others wait for this rank, which has left its turn out.
            self.fail(self._broken(ranks, f"{type(error).__name__}: {error}"))
            raise
        with self._changed:
            used.turn += 1
            self._changed.notify_all()

    def _made(self, ranks: Ranks) -> Any:
        """The communicator of these ranks, which all make it now."""
        if len(ranks) == self._world.size:
            return self._world.arrays
        made: list[Any] = []
        tag = zlib.crc32(repr(ranks).encode()) & 0x7FFF
        group = self._world.arrays.group.Incl(list(ranks))
        # MPI has no form of it that can be polled: a rank that is stuck must not hold this thread.
        create = functools.partial(_create, self._world.arrays, group, tag, made)
        threading.Thread(target=create, name="mpi-group", daemon=True).start()
        self._await(ranks, lambda: bool(made), 0)
        if isinstance(made[0], Exception):
            raise self._broken(ranks, str(made[0]))
        return made[0]

    def _finish(self, ranks: Ranks, requests: list[Any], *buffers: Bytes) -> None:
        from mpi4py import MPI

        key = object()
        self._under_way[key] = requests, buffers
        size = sum(buffer.nbytes for buffer in buffers)
        try:
            self._await(ranks, lambda: MPI.Request.Testall(requests), size)
        except MPI.Exception as error:
            raise self._broken(ranks, str(error)) from error
        del self._under_way[key]

    def _await(self, ranks: Ranks, is_over: Callable[[], bool], size: int) -> None:
        seconds = self._seconds + size / _BYTES_PER_SECOND
        if not poll(lambda: self.failure is not None or is_over(), seconds):
            raise self._broken(ranks, f"an exchange that does not end in {seconds:.0f} s")
        if self.failure is not None:
            raise copy_of(self.failure)

    def _broken(self, ranks: Ranks, why: str) -> XlaError:
        others = braced([rank for rank in ranks if rank != self._world.rank])
        return UnavailableError(f"ranks {others} must take part in a collective, got {why}")


def require_size(size: int) -> None:
    """Raise ResourceExhaustedError for more bytes than one rank sends or receives at a time."""
    if size > MAX_BYTES:
        raise ResourceExhaustedError(
            f"a rank must send and receive at most {MAX_BYTES} bytes in one collective, got {size}"
        )


def _create(comm: Any, group: Any, tag: int, made: list[Any]) -> None:
    from mpi4py import MPI

    try:
        made.append(comm.Create_group(group, tag))
    except MPI.Exception as error:
        made.append(error)


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:place]) for place in range(len(sizes))]


def is_dense(arrays: Sequence[Array]) -> bool:
    """Return whether the bytes of arrays are one after the other: of one dense array."""
    return len(arrays) == 1 and arrays[0].flags.c_contiguous


def room(arrays: Sequence[Array]) -> Bytes:
    """Memory for the bytes of arrays: their own where they are dense."""
    if is_dense(arrays):
        return bytes_of(arrays[0])
    return np.empty(sum(array.nbytes for array in arrays), np.uint8)


def joined(arrays: Sequence[Array]) -> Bytes:
    """The bytes of arrays, one after the other; those of one dense array where they are."""
    if is_dense(arrays):
        return bytes_of(arrays[0])
    joined = np.empty(sum(array.nbytes for array in arrays), np.uint8)
    _pack(arrays, joined)
    return joined


def _pack(arrays: Sequence[Array], into: Bytes) -> None:
    start = 0
    for array in arrays:
        part = into[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        part[...] = array
        start += array.nbytes


def unpack(data: Bytes, targets: Sequence[Sequence[Array]]) -> None:
    """Write bytes to arrays, one after the other; each to several of its size."""
    start = 0
    for alike in targets:
        first = alike[0]
        part = data[start : start + first.nbytes].view(first.dtype).reshape(first.shape)
        for each in alike:
            each[...] = part
        start += first.nbytes
