"""Records that the server and the worker of a device exchange.

A program is a sequence of thunks over numbered slots. A slot has the address of an array: first all
parameters, then results, constants, and values of the arena, as many as `DeviceProgram` has. The
last slot has the address of the run's cancellation flag.
"""

import dataclasses
from typing import NamedTuple, TypeAlias

from xla_server.codegen.gpu.plans.library_plans import LibraryPlan


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceDescription:
    """A device as its driver describes it.

    `architecture` is its compute capability, such as `sm_89`, and `capability` the newest known one
    that it has, such as `sm_80`; `total_bytes` of memory, of which `free_bytes` were free when the
    worker began.
    """

    name: str
    architecture: str
    capability: str
    multiprocessors: int
    total_bytes: int
    free_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceKernel:
    """A kernel of a module by its number, with the threads that execute it."""

    module: int
    symbol: str
    blocks: int
    threads: int
    shared_bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """Launch the kernel of this number with the addresses in these slots."""

    kernel: int
    slots: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryCall:
    """Let a library compute a plan with the addresses in these slots."""

    plan: LibraryPlan
    slots: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Copy:
    """Copy bytes on the device."""

    target: int
    source: int
    byte_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostStep:
    """Suspend the run until the server has executed this step of the program."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Jump:
    """Jump to a thunk."""

    target: int


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """Jump to a thunk if the predicate, one byte, is zero, else continue with the next thunk."""

    predicate: int
    otherwise: int


@dataclasses.dataclass(frozen=True, slots=True)
class Switch:
    """Jump to the thunk with the number in a slot, an s32; to the last one for other numbers."""

    index: int
    targets: tuple[int, ...]


DeviceThunk: TypeAlias = Launch | LibraryCall | Copy | HostStep | Jump | Branch | Switch


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceProgram:
    """A program as a worker loads it.

    `modules` are loaded by the driver: cubins, PTX, or the form that the driver of a test reads.
    `constants` are dense row-major arrays as bytes, `results` the bytes of results with memory of
    their own, and `arena_offsets` the offsets of the last slots in an arena of `arena_bytes`.
    """

    modules: tuple[bytes, ...]
    kernels: tuple[DeviceKernel, ...]
    thunks: tuple[DeviceThunk, ...]
    parameter_count: int
    constants: tuple[bytes, ...]
    results: tuple[int, ...]
    arena_offsets: tuple[int, ...]
    arena_bytes: int


class Finished(NamedTuple):
    """A run is over: the addresses of its results, which the server owns now, and its time.

    A launched run has none left to give.
    """

    results: tuple[int, ...]
    nanoseconds: int


class Launched(NamedTuple):
    """All work of a run is enqueued: its number, and its results' addresses, now the server's.

    Other runs may have the results as parameters, in the device's order.
    """

    run: int
    results: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Suspended:
    """A run waits for a step of the server, which may read and write the values in `addresses`.

    These are the addresses of all slots.
    """

    run: int
    step: int
    addresses: tuple[int, ...]


Outcome: TypeAlias = Finished | Launched | Suspended


class OutOfDeviceMemoryError(Exception):
    """A device has too little memory; nothing was changed."""

    def __init__(self, requested: int, free: int, total: int) -> None:
        super().__init__(requested, free, total)
        self.requested, self.free, self.total = requested, free, total


class DeviceLostError(Exception):
    """The worker has ended, and all values of its device with it; the message says why."""


class RunCancelledError(Exception):
    """A run stopped because its cancellation flag was set."""


class NoDeviceError(Exception):
    """There is no such device, or no driver for it; the message is a sentence that says which."""
