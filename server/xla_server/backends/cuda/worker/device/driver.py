"""The interface of one device, as its worker uses it. Addresses and streams are numbers.

The work of a stream is executed asynchronously, in order; `synchronise` waits for it. Any call may
raise DeviceLostError, after which no call works. A driver is made with the device's number and
raises NoDeviceError if there is none. Several threads use it at the same time, each with its
own stream, so the objects that `prepare` returns are called in several streams at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from xla_server.backends.cuda.worker.exchange.protocol import DeviceDescription
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan


class KernelLaunch(NamedTuple):
    """A kernel of a module, the form of its launch, and the addresses that are its arguments."""

    kernel: Any
    blocks: int
    threads: int
    shared_bytes: int
    addresses: Sequence[int]


class DeviceCopy(NamedTuple):
    """A copy of bytes, one or more, on the device."""

    target: int
    source: int
    byte_size: int


class PreparedCall(NamedTuple):
    """A prepared plan with the addresses of its operands, then its results."""

    prepared: Any
    addresses: Sequence[int]


class LoopCondition(NamedTuple):
    """The addresses that a loop of a graph reads before each iteration."""

    predicate: int
    stop: int


class CaseIndex(NamedTuple):
    """The address and bytes of the index that a graph chooses one of its cases by."""

    address: int
    byte_size: int
    cases: int


Work: TypeAlias = KernelLaunch | DeviceCopy | PreparedCall
"""Work for a stream, which may also be a node of a graph, and be replaced there."""

NodeWork: TypeAlias = Work | LoopCondition | CaseIndex
"""The new contents of a node of a graph."""


@runtime_checkable
class Driver(Protocol):
    """One device.

    Its graphs have loops and branches on values in device memory. A body or case is a callable,
    which is called during the capture. It enqueues its launches, copies, calls, and nested loops
    and branches to the stream that it is passed.
    """

    @property
    def description(self) -> DeviceDescription:
        """The record of the device that the server receives."""

    def make_current(self) -> None:
        """Let the calling thread use the device; each thread calls it before all else."""

    def new_stream(self) -> int:
        """Return a stream, which waits for no other."""

    def synchronise(self, stream: int) -> None:
        """Wait until all work of the stream is done."""

    def record(self, stream: int) -> Any:
        """Return an event of the work that the stream has now, for `wait_for`."""

    def wait_for(self, event: Any, stream: int) -> None:
        """Let later work of the stream wait for the event's work; the host does not wait."""

    def allocate(self, byte_size: int, stream: int) -> int:
        """Return memory, aligned to 256 bytes, for later work of the stream.

        Raises OutOfDeviceMemoryError, with nothing changed.
        """

    def free(self, address: int, stream: int) -> None:
        """Free memory once the earlier work of the stream is done."""

    def free_bytes(self) -> int:
        """Return the bytes that could be allocated now."""

    def pin(self, memory: memoryview) -> int:
        """Pin host memory for asynchronous copies, until the process ends.

        Returns its device address.
        """

    def upload(self, address: int, source: memoryview, stream: int) -> None:
        """Copy bytes of the host to the device; `source` must live until the stream is done."""

    def download(self, target: memoryview, address: int, stream: int) -> None:
        """Copy bytes of the device to the host; `target` is valid once the stream is done."""

    def load(self, module: bytes, symbols: Sequence[str]) -> Sequence[Any]:
        """Return the kernels of a module, which is loaded as long as they are referenced."""

    def enqueue(self, work: Work, stream: int) -> None:
        """Enqueue work to a stream; addresses are copied."""

    def prepare(self, plan: LibraryPlan) -> Any:
        """Return the executable form of a plan, with all memory and handles that it needs."""

    def begin_capture(self, stream: int) -> None:
        """Begin to capture the work of a stream into a graph instead of executing it."""

    def capture(self, work: Work, stream: int) -> Any:
        """Enqueue work to a stream under capture, in a body too, and return its node."""

    def end_capture(self, stream: int) -> Any:
        """Return the graph, which is kept as long as it is referenced."""

    def change_node(self, graph: Any, node: Any, work: NodeWork, stream: int) -> None:
        """Replace a node's work by work of the same type, from the next launch of its graph on.

        The stream must not be under capture; no work is enqueued to it. A prepared call must have
        the same plan.
        """

    def launch_graph(self, graph: Any, stream: int) -> None:
        """Launch the graph in a stream."""

    def capture_loop(
        self, condition: LoopCondition, body: Callable[[int], None], stream: int
    ) -> Any:
        """Add a loop to the graph, and return its node.

        The body is executed while the byte at `predicate` is not zero, and the eight bytes at
        `stop`, in pinned host memory, are.
        """

    def capture_case(
        self, index: CaseIndex, cases: Sequence[Callable[[int], None]], stream: int
    ) -> Any:
        """Add a choice by a number to the graph, the last case for others; return its node."""
