"""A device in memory of the host, as a worker's driver has it: kernels are those of the twin.

An array ends where memory ends, and memory that was freed may not be touched, so that an access
beside one ends the worker, as on a GPU.
"""

import collections
import contextlib
import ctypes
import dataclasses
import functools
import mmap
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from tests.cuda_twin.device.graph_work import CapturingDriver, GraphWork, Work, launched
from tests.cuda_twin.device.host_module import HostModule, LoadedKernel
from tests.cuda_twin.libraries.by_numpy import compute
from xla_server.backends.cuda.worker.device import driver as device_driver
from xla_server.backends.cuda.worker.device.driver import KernelLaunch
from xla_server.backends.cuda.worker.exchange.protocol import (
    DeviceDescription,
    DeviceLostError,
    OutOfDeviceMemoryError,
)
from xla_server.backends.cuda.worker.libraries import LibraryError
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.target.gpu.convolution import Direction
from xla_server.target.gpu.properties import GPUS

CAPABILITY = "sm_90"
ALIGNMENT = 16
"""Addresses are multiples of it, as kernels are promised; those of a device are of 256."""

FILL = 0xFF
"""Bytes of a NaN of every float, and of -1."""

_KEPT = 256
"""Freed pieces of memory whose addresses no other piece gets."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_READ_AND_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_NO_ACCESS = 0


class Piece:
    """Memory of so many bytes, behind which there is none, filled with NaN of every float."""

    def __init__(self, byte_size: int) -> None:
        page = mmap.PAGESIZE
        taken = -(-byte_size // ALIGNMENT) * ALIGNMENT
        self._room = -(-taken // page) * page
        begin = _LIBC.mmap(None, self._room + page, _READ_AND_WRITE, _PRIVATE, -1, 0)
        if begin in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"mmap of {self._room} bytes")
        self._begin: int = begin
        self._protect(self._begin + self._room, page)
        self.byte_size = byte_size
        self.address: int = self._begin + self._room - taken
        ctypes.memset(self._begin, FILL, self._room)

    def _protect(self, address: int, byte_size: int) -> None:
        if _LIBC.mprotect(address, byte_size, _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")

    def is_intact(self) -> bool:
        """Return whether nothing was stored around it."""
        before = ctypes.string_at(self._begin, self.address - self._begin)
        end = self.address + self.byte_size
        behind = ctypes.string_at(end, self._begin + self._room - end)
        return not (before + behind).strip(bytes([FILL]))

    def close(self) -> None:
        """Make it inaccessible, and give its pages back."""
        _LIBC.madvise(self._begin, self._room, mmap.MADV_DONTNEED)
        if self._room:
            self._protect(self._begin, self._room)

    def release(self) -> None:
        """Give its addresses back."""
        _LIBC.munmap(self._begin, self._room + mmap.PAGESIZE)


def _bytes_at(address: int, byte_size: int) -> int:
    return int.from_bytes(ctypes.string_at(address, byte_size), "little")


@dataclasses.dataclass(slots=True, eq=False)
class TwinEvent:
    """The work that a stream had when it was recorded."""

    stream: int
    is_done: bool = False


def _is_done(event: TwinEvent | None) -> bool:
    return event is not None and event.is_done


class TwinDriver(CapturingDriver):
    """A device of the host, which does at once all that a stream is given.

    Implements xla_server.backends.cuda.worker.device.driver.Driver.
    """

    total_bytes = 4 << 30
    is_prompt = True
    """True where a stream does its work at once."""

    def __init__(self, ordinal: int = 0) -> None:
        super().__init__()
        self._free_bytes = self.total_bytes
        self._pieces: dict[int, Piece] = {}
        self._freed: collections.deque[Piece] = collections.deque()
        self._streams: dict[int, collections.deque[Work]] = {}
        self._busy: set[int] = set()
        """Streams whose work a thread does."""
        self._changed = threading.Condition()
        """Notified when a stream is not busy any more, and when an event is done."""
        self._lock = threading.RLock()
        self._pinned = range(0)
        self._ordinal = ordinal

    @property
    def description(self) -> DeviceDescription:
        """Return what the device is."""
        return DeviceDescription(
            f"twin {self._ordinal} of a GPU",
            *(CAPABILITY, CAPABILITY),
            GPUS[CAPABILITY].multiprocessors,
            self.total_bytes,
            self.free_bytes(),
        )

    def make_current(self) -> None:
        """Do nothing: every thread of the host may use its memory."""

    def new_stream(self) -> int:
        """Return a stream."""
        with self._lock:
            stream = len(self._streams) + 1
            self._streams[stream] = collections.deque()
            return stream

    def synchronise(self, stream: int) -> None:
        """Do what is left of a stream."""
        assert stream not in self._captured
        works = self._streams[stream]
        with self._working(stream):
            while works:
                works.popleft()()

    @contextlib.contextmanager
    def _working(self, stream: int, event: TwinEvent | None = None) -> Iterator[None]:
        """Keep other threads from a stream's work during the block, unless an event is done.

        Threads of two streams, each with an event that the other one has done already, would
        otherwise wait for each other.
        """
        with self._changed:
            self._changed.wait_for(lambda: stream not in self._busy or _is_done(event))
            is_alone = not _is_done(event)
            if is_alone:
                self._busy.add(stream)
        try:
            yield
        finally:
            if is_alone:
                with self._changed:
                    self._busy.remove(stream)
                    self._changed.notify_all()

    def record(self, stream: int) -> TwinEvent:
        """Return an event of the work that a stream has."""
        event = TwinEvent(stream)

        def work() -> None:
            with self._changed:
                event.is_done = True
                self._changed.notify_all()

        self._enqueue(stream, work)
        return event

    def wait_for(self, event: TwinEvent, stream: int) -> None:
        """Let a stream do what is left of the event's work before its own."""

        def work() -> None:
            with self._working(event.stream, event):
                while not event.is_done:
                    self._streams[event.stream].popleft()()

        self._enqueue(stream, work)

    def _enqueue(self, stream: int, work: Work) -> None:
        """Give work to a stream, or to the graph that it is captured for."""
        if stream in self._captured:
            self._captured[stream].append(work)
            return
        self._streams[stream].append(work)
        if self.is_prompt:
            self.synchronise(stream)

    def change_node(
        self, graph: GraphWork, node: Any, work: device_driver.NodeWork, stream: int
    ) -> None:
        """Let the work of a node be another."""
        assert stream not in self._captured
        if isinstance(work, device_driver.LoopCondition | device_driver.CaseIndex):
            node.read = work
            return
        works, number = node
        works[number] = self._done(work)

    def _done(self, work: device_driver.Work) -> Work:
        match work:
            case KernelLaunch():
                return functools.partial(self._launch, work, tuple(work.addresses))
            case device_driver.DeviceCopy():
                return functools.partial(self._copy, *work)
            case device_driver.PreparedCall(prepared, addresses):
                return functools.partial(self._call, prepared, tuple(addresses))

    def launch_graph(self, graph: GraphWork, stream: int) -> None:
        """Give a stream the work of a graph."""
        for work in launched(graph):
            self._enqueue(stream, work)

    def _value(self, address: int, byte_size: int) -> int:
        self._require(address, byte_size)
        return _bytes_at(address, byte_size)

    def _is_stopped(self, word: int) -> bool:
        return _bytes_at(word, 8) != 0

    def allocate(self, byte_size: int, stream: int) -> int:
        """Return new memory. Raises OutOfDeviceMemoryError if the device has too little."""
        if byte_size > self._free_bytes:
            # Memory that other streams gave back counts, as in a pool that waits for it.
            for each in tuple(self._streams):
                self.synchronise(each)
        with self._lock:
            if byte_size > self._free_bytes:
                raise OutOfDeviceMemoryError(byte_size, self._free_bytes, self.total_bytes)
            piece = Piece(byte_size)
            self._free_bytes -= byte_size
            self._pieces[piece.address] = piece
            return piece.address

    def free(self, address: int, stream: int) -> None:
        """Give memory back; whoever touches it afterwards ends the process."""
        self._enqueue(stream, lambda: self._free(address))

    def _free(self, address: int) -> None:
        with self._lock:
            piece = self._pieces.pop(address, None)
            if piece is None:
                raise DeviceLostError(f"memory must be freed once, got {address:#x}")
            if not piece.is_intact():
                raise DeviceLostError(f"something was stored beside memory at {address:#x}")
            self._free_bytes += piece.byte_size
            piece.close()
            self._freed.append(piece)
            if len(self._freed) > _KEPT:
                self._freed.popleft().release()

    def free_bytes(self) -> int:
        """Return the bytes that could be allocated now."""
        return self._free_bytes

    def pin(self, memory: memoryview) -> int:
        """Return the address: the host's memory is the device's."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._pinned = range(address, address + memory.nbytes)
        return address

    def upload(self, address: int, source: memoryview, stream: int) -> None:
        """Copy bytes to the device."""
        self._enqueue(stream, lambda: self._upload(address, source))

    def _upload(self, address: int, source: memoryview) -> None:
        data = source.cast("B")
        self._require(address, data.nbytes)
        ctypes.memmove(address, bytes(data), data.nbytes)

    def download(self, target: memoryview, address: int, stream: int) -> None:
        """Copy bytes to the host."""
        self._enqueue(stream, lambda: self._download(target, address))

    def _download(self, target: memoryview, address: int) -> None:
        data = target.cast("B")
        self._require(address, data.nbytes)
        data[:] = ctypes.string_at(address, data.nbytes)

    def _copy(self, target: int, source: int, byte_size: int) -> None:
        for address in (target, source):
            self._require(address, byte_size)
        if target < source + byte_size and source < target + byte_size:
            raise DeviceLostError("the parts of a copy must not overlap")
        ctypes.memmove(target, source, byte_size)

    def _require(self, address: int, byte_size: int = 0) -> None:
        """Raise DeviceLostError for bytes that are in no memory of the device."""
        with self._lock:
            pieces = self._pieces
            found = pieces.get(address) or next(
                (each for each in pieces.values() if 0 <= address - each.address <= each.byte_size),
                None,
            )
        if found is None or address + byte_size > found.address + found.byte_size:
            raise DeviceLostError(f"illegal address: {byte_size} bytes at {address:#x}")

    def load(self, module: bytes, symbols: Sequence[str]) -> Sequence[LoadedKernel]:
        """Return the kernels of a module of the twin."""
        loaded = HostModule(module)
        return [loaded.kernel(symbol) for symbol in symbols]

    def enqueue(self, work: device_driver.Work, stream: int) -> None:
        """Give work to a stream."""
        self._enqueue(stream, self._done(work))

    def _launch(self, launch: KernelLaunch, addresses: Sequence[int]) -> None:
        for address in addresses:
            if address not in self._pinned:
                self._require(address)
        try:
            launch.kernel.launch(launch.blocks, launch.threads, addresses)
        except (RuntimeError, ValueError) as error:
            raise DeviceLostError(str(error)) from error

    def prepare(self, plan: LibraryPlan) -> LibraryPlan:
        """Return the plan: nothing is to be prepared. Raises ValueError for what none computes."""
        if plan.problem is not None:
            raise ValueError(f"{plan.text}: {plan.problem}")
        return plan

    def _call(self, plan: LibraryPlan, addresses: Sequence[int]) -> None:
        for address in addresses:
            self._require(address)
        try:
            compute(plan, addresses)
        except ValueError as error:
            raise DeviceLostError(str(error)) from error


class SmallTwin(TwinDriver):
    """A device with little memory."""

    total_bytes = 16 << 20


class DelayedTwin(TwinDriver):
    """A device that does nothing before it is waited for."""

    is_prompt = False


class RefusingTwin(TwinDriver):
    """A device whose library has no engine for gradients of filters."""

    def prepare(self, plan: LibraryPlan) -> LibraryPlan:
        """Return the plan, as a TwinDriver does. Raises LibraryError for such a gradient."""
        form = plan.convolution if isinstance(plan, ConvolutionPlan) else None
        if form is not None and form.direction is Direction.FILTER_GRADIENT:
            raise LibraryError(f"{plan.text}: no engine")
        return super().prepare(plan)
