"""Transfers of the arrays of collectives, by MPI's collectives among the ranks of a group."""

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
"""Limit of the bytes that a rank sends or receives in one collective: MPI's counts have 31 bits."""

_BYTES_PER_SECOND = 1 << 23
"""Bandwidth of the slowest network on which no rank is taken for stuck, in bytes a second: the size
of an exchange divided by this is added to its timeout."""

Ranks: TypeAlias = tuple[int, ...]


class _Communicator:
    """The communicator of a group of ranks, and the number of the exchange whose turn it is."""

    def __init__(self) -> None:
        self.turn = 0
        self.comm: Any = None


class Exchange:
    """MPI's collectives between this rank and others. Thread-safe.

    The exchanges among the same ranks are numbered from 0 (`turn`), and all of these ranks make
    them in this order. After a failure there are no more exchanges: one with a rank that has died
    never ends. `failed` is called with the first failure.
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
        """The error that ended all exchanges, if any."""
        self._under_way: dict[object, object] = {}
        """Requests and buffers that MPI may still use, also after a failure."""

    def fail(self, error: XlaError) -> None:
        """Fail all exchanges in progress and all later ones."""
        with self._changed:
            if self.failure is not None:
                return
            self.failure = error
            self._changed.notify_all()
        self._failed(error)

    def all_gather(
        self,
        ranks: Ranks,
        turn: int,
        mine: Sequence[Array],
        others: Mapping[int, Sequence[Sequence[Array]]],
    ) -> None:
        """Send the same arrays to all ranks, and receive those of each: MPI's Allgather.

        Each array of another rank is written to several arrays of its size.
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
        for index, rank in enumerate(ranks):
            if index != own:
                unpack(received[starts[index] :], others[rank])

    def send_receive(
        self,
        ranks: Ranks,
        turn: int,
        mine: Mapping[int, Sequence[Array]],
        others: Mapping[int, Sequence[Array]],
    ) -> None:
        """Exchange different arrays with some or all ranks: MPI's Isend and Irecv."""
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

    def all_reduce(self, ranks: Ranks, turn: int, arrays: Sequence[Array], opcode: Opcode) -> None:
        """Overwrite arrays with their reduction over all ranks: MPI's Allreduce."""
        with self._turn(ranks, turn) as comm:
            from mpi4py import MPI

            requests = [
                comm.Iallreduce(MPI.IN_PLACE, array, operation(opcode, array.dtype.kind))
                for array in arrays
            ]
            self._finish(ranks, requests, *map(bytes_of, arrays))

    @contextlib.contextmanager
    def _turn(self, ranks: Ranks, turn: int) -> Iterator[Any]:
        """Yield the communicator of these ranks when it is the turn of this exchange."""
        with self._changed:
            used = self._communicators.setdefault(ranks, _Communicator())
            self._changed.wait_for(lambda: used.turn == turn or self.failure is not None)
            if self.failure is not None:
                raise copy_of(self.failure)
        try:
            if used.comm is None:
                used.comm = self._create_communicator(ranks)
            yield used.comm
        except BaseException as error:
            # The others wait for this rank, which has missed its turn.
            self.fail(self._broken(ranks, f"{type(error).__name__}: {error}"))
            raise
        with self._changed:
            used.turn += 1
            self._changed.notify_all()

    def _create_communicator(self, ranks: Ranks) -> Any:
        """Create the communicator of these ranks, which all of them do at this time."""
        if len(ranks) == self._world.size:
            return self._world.arrays
        created: list[Any] = []
        tag = zlib.crc32(repr(ranks).encode()) & 0x7FFF
        group = self._world.arrays.group.Incl(list(ranks))
        # MPI has no nonblocking form of it, and a rank that is stuck must not block this thread.
        create = functools.partial(_create, self._world.arrays, group, tag, created)
        threading.Thread(target=create, name="mpi-group", daemon=True).start()
        self._await(ranks, lambda: bool(created), 0)
        if isinstance(created[0], Exception):
            raise self._broken(ranks, str(created[0]))
        return created[0]

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


def _create(comm: Any, group: Any, tag: int, created: list[Any]) -> None:
    from mpi4py import MPI

    try:
        created.append(comm.Create_group(group, tag))
    except MPI.Exception as error:
        created.append(error)


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:index]) for index in range(len(sizes))]


def is_dense(arrays: Sequence[Array]) -> bool:
    """Return whether the bytes of arrays are contiguous: those of one C-contiguous array."""
    return len(arrays) == 1 and arrays[0].flags.c_contiguous


def receive_buffer(arrays: Sequence[Array]) -> Bytes:
    """Return memory for the bytes of arrays: that of a single contiguous array, else new memory."""
    if is_dense(arrays):
        return bytes_of(arrays[0])
    return np.empty(sum(array.nbytes for array in arrays), np.uint8)


def joined(arrays: Sequence[Array]) -> Bytes:
    """Return the concatenated bytes of arrays: a view of a single contiguous array, else a copy."""
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
    """Copy concatenated bytes to arrays; the arrays of one target all get the same bytes."""
    start = 0
    for alike in targets:
        first = alike[0]
        part = data[start : start + first.nbytes].view(first.dtype).reshape(first.shape)
        for each in alike:
            each[...] = part
        start += first.nbytes
