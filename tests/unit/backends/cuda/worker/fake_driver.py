"""A device on memory of the host that does what a stream was given when it is waited for.

It checks lifetimes: an address that is not allocated is an error, and none is given out twice. A
symbol names what a kernel does; `begun` and `gate` are named pipes that a test waits with.
"""

import itertools
import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.cuda_twin.device.graph_work import CapturingDriver, GraphWork, launched
from xla_server.backends.cuda.worker.device import driver as device_driver
from xla_server.backends.cuda.worker.device.driver import (
    CaseIndex,
    DeviceCopy,
    KernelLaunch,
    LoopCondition,
    NodeWork,
    PreparedCall,
)
from xla_server.backends.cuda.worker.exchange.messages import INLINE_BYTES
from xla_server.backends.cuda.worker.exchange.protocol import (
    DeviceDescription,
    DeviceLostError,
    NoDeviceError,
    OutOfDeviceMemoryError,
)
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan

TOTAL_BYTES = 256 << 20
PIPES = "XLA_FAKE_DRIVER_PIPES"
MAX_MODULES = 3
LATE = 100
PINNED = 1 << 63
HANGS = 0xE5
"""The first byte of a large array whose upload does not end."""
_DEVICES = 2


def REFUSED() -> None:  # noqa: N802
    """Work of a capture that cannot be ended."""


class FakeEvent(threading.Event):
    """The work that a stream had when it was recorded."""

    def __init__(self, stream: int) -> None:
        super().__init__()
        self.stream = stream


class _Module:
    """Loaded as long as its kernels are referenced."""


class FakeDriver(CapturingDriver):
    def __init__(self, ordinal: int) -> None:
        if ordinal >= _DEVICES:
            raise NoDeviceError(f"a device must be one of {_DEVICES}, got {ordinal}")
        super().__init__()
        self.waits = self.captures = self.changes = 0
        self._lock = threading.RLock()
        self._memory: dict[int, bytearray] = {}
        self._freed: set[int] = set()
        self._reserved = 0
        self._next = itertools.count(1)
        self._streams: dict[int, list[Callable[[], None]]] = {}
        self._working: dict[int, threading.RLock] = {}
        self.modules: weakref.WeakSet[_Module] = weakref.WeakSet()
        self._current = threading.local()
        self._pinned: list[memoryview] = []
        self.description = DeviceDescription(
            "fake", "sm_90", "sm_90", 132, TOTAL_BYTES, TOTAL_BYTES
        )

    def make_current(self) -> None:
        self._current.is_set = True

    def new_stream(self) -> int:
        assert self._current.is_set
        with self._lock:
            stream = len(self._streams) + 1
            self._streams[stream] = []
            self._working[stream] = threading.RLock()
            return stream

    def synchronise(self, stream: int) -> None:
        assert self._current.is_set
        assert stream not in self._captured
        self.waits += 1
        self._execute(stream, lambda: not self._streams[stream])

    def _execute(self, stream: int, is_done: Callable[[], bool]) -> None:
        with self._working[stream]:
            while not is_done():
                self._streams[stream].pop(0)()

    def record(self, stream: int) -> FakeEvent:
        assert stream not in self._captured
        event = FakeEvent(stream)
        self._streams[stream].append(event.set)
        return event

    def wait_for(self, event: FakeEvent, stream: int) -> None:
        assert event.stream != stream
        self._later(stream, lambda: self._execute(event.stream, event.is_set))

    def allocate(self, byte_size: int, stream: int) -> int:
        assert byte_size > 0
        with self._lock:
            if byte_size > TOTAL_BYTES - self._reserved:
                raise OutOfDeviceMemoryError(byte_size, TOTAL_BYTES - self._reserved, TOTAL_BYTES)
            address = next(self._next) << 40
            self._memory[address] = bytearray(b"\xff" * byte_size)
            self._reserved += byte_size
            return address

    def free(self, address: int, stream: int) -> None:
        with self._lock:
            if address not in self._memory or address in self._freed:
                raise DeviceLostError(f"memory must be allocated to be freed, got {address:x}")
            self._freed.add(address)
            self._reserved -= len(self._memory[address])
        self._later(stream, lambda: self._forget(address))

    def _forget(self, address: int) -> None:
        with self._lock:
            del self._memory[address]

    def free_bytes(self) -> int:
        return TOTAL_BYTES - self._reserved

    def pin(self, memory: memoryview) -> int:
        self._pinned.append(memory)
        return PINNED

    def upload(self, address: int, source: memoryview, stream: int) -> None:
        def uploaded() -> None:
            if source[0] == HANGS and len(source) > INLINE_BYTES:
                self._kernel_hang(0, [])
            self._write(address, bytes(source))

        self._later(stream, uploaded)

    def download(self, target: memoryview, address: int, stream: int) -> None:
        def downloaded() -> None:
            target[:] = self._read(address, len(target))

        self._later(stream, downloaded)

    def load(self, module: bytes, symbols: Sequence[str]) -> Sequence[Any]:
        if module != b"module":
            raise ValueError(f"a module must be one of this driver, got {module!r}")
        loaded = _Module()
        self.modules.add(loaded)
        if len(self.modules) > MAX_MODULES:
            raise ValueError(f"{MAX_MODULES} modules must be enough, got {len(self.modules)}")
        return [(loaded, getattr(self, f"_kernel_{symbol}")) for symbol in symbols]

    def enqueue(self, work: device_driver.Work, stream: int) -> None:
        match work:
            case KernelLaunch():
                if work.kernel[1] == self._kernel_uncapturable and stream in self._captured:
                    self._captured[stream].append(REFUSED)
                self._later(stream, self._work(work))
            case DeviceCopy(target, source, byte_size):
                self._later(stream, lambda: self._write(target, self._read(source, byte_size)))
            case PreparedCall(_, addresses):
                self._later(stream, lambda: self._kernel_increment(4, addresses))

    def _work(self, launch: KernelLaunch) -> Callable[[], None]:
        assert launch.blocks > 0
        return lambda: launch.kernel[1](launch.blocks * launch.threads, launch.addresses)

    def prepare(self, plan: LibraryPlan) -> Any:
        return plan

    def begin_capture(self, stream: int) -> None:
        super().begin_capture(stream)
        self.captures += 1

    def change_node(self, graph: GraphWork, node: Any, work: NodeWork, stream: int) -> None:
        self.changes += 1
        if isinstance(work, LoopCondition | CaseIndex):
            node.read = work
            return
        self.begin_capture(stream)
        self.capture(work, stream)
        works, number = node
        (works[number],) = self._captured.pop(stream)
        self.captures -= 1

    def end_capture(self, stream: int) -> GraphWork:
        captured = super().end_capture(stream)
        if REFUSED in captured:
            raise ValueError("the capture was refused")
        return captured

    def launch_graph(self, graph: GraphWork, stream: int) -> None:
        assert stream not in self._captured
        self._streams[stream].extend(launched(graph))

    def _value(self, address: int, byte_size: int) -> int:
        return int.from_bytes(self._read(address, byte_size), "little")

    def _is_stopped(self, word: int) -> bool:
        start = word - PINNED
        return any(self._pinned[0][start : start + 8])

    def _later(self, stream: int, work: Callable[[], None]) -> None:
        assert self._current.is_set
        self._captured.get(stream, self._streams[stream]).append(work)

    def _found(self, address: int, byte_size: int) -> tuple[bytearray, int]:
        base = address >> 40 << 40
        with self._lock:
            block = self._memory.get(base)
        if block is None or address - base + byte_size > len(block):
            raise DeviceLostError(f"an access must be to allocated memory, got {address:x}")
        return block, address - base

    def _read(self, address: int, byte_size: int) -> bytes:
        block, start = self._found(address, byte_size)
        return bytes(block[start : start + byte_size])

    def _write(self, address: int, data: bytes) -> None:
        block, start = self._found(address, len(data))
        block[start : start + len(data)] = data

    def _kernel_increment(self, count: int, addresses: Sequence[int]) -> None:
        source, target = addresses
        self._write(target, bytes((each + 1) % 256 for each in self._read(source, count)))

    def _kernel_is_below_five(self, count: int, addresses: Sequence[int]) -> None:
        source, target = addresses
        self._write(target, bytes([self._read(source, 1)[0] < 5]))

    def _kernel_is_below_two_hundred(self, count: int, addresses: Sequence[int]) -> None:
        source, target = addresses
        self._write(target, bytes([self._read(source, 1)[0] < 200]))

    def _kernel_uncapturable(self, count: int, addresses: Sequence[int]) -> None:
        self._kernel_increment(count, addresses)

    def _kernel_fault(self, count: int, addresses: Sequence[int]) -> None:
        raise DeviceLostError("CUDA_ERROR_ILLEGAL_ADDRESS")

    def _kernel_begin(self, count: int, addresses: Sequence[int]) -> None:
        _pipe("begun").write_bytes(b"!")

    def _kernel_wait(self, count: int, addresses: Sequence[int]) -> None:
        _pipe("begun").write_bytes(b"!")
        _pipe("gate").read_bytes()

    def _kernel_poll(self, count: int, addresses: Sequence[int]) -> None:
        _pipe("begun").write_bytes(b"!")
        while not self._is_stopped(addresses[-1]):
            pass

    def _kernel_hang(self, count: int, addresses: Sequence[int]) -> None:
        _pipe("begun").write_bytes(b"!")
        threading.Event().wait()

    def _kernel_late_fault(self, count: int, addresses: Sequence[int]) -> None:
        self._late(addresses, self._kernel_fault)

    def _kernel_late_wait(self, count: int, addresses: Sequence[int]) -> None:
        self._late(addresses, self._kernel_wait)

    def _kernel_late_hang(self, count: int, addresses: Sequence[int]) -> None:
        self._late(addresses, self._kernel_hang)

    def _kernel_late_die(self, count: int, addresses: Sequence[int]) -> None:
        self._late(addresses, self._kernel_die)

    def _late(self, addresses: Sequence[int], kernel: Callable[[int, Sequence[int]], None]) -> None:
        if self._read(addresses[0], 1)[0] == LATE:
            kernel(1, addresses)

    def _kernel_die(self, count: int, addresses: Sequence[int]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def _pipe(name: str) -> Path:
    return Path(os.environ[PIPES]) / name
