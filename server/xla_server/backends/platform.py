"""The interface of platforms, buffers and executables for sessions."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.backends.compile_options import DEFAULTS, CompileOptions
from xla_server.buffers.assignment import MemoryUse
from xla_server.buffers.work import ProgramWork
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import GridParticipants
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloModule


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """One device of a platform."""

    ordinal: int
    platform: str

    def __str__(self) -> str:
        return f"{self.platform}:{self.ordinal}"


def devices_of(platform: str, count: int) -> tuple[Device, ...]:
    """Return the devices of a platform. Raises InvalidArgumentError for a count below 1."""
    if count < 1:
        raise InvalidArgumentError(f"a platform needs at least one device, got {count}")
    return tuple(Device(number, platform) for number in range(count))


class Profile(NamedTuple):
    """The cost of one execution, field by field as in ExecutionProfile, where two more are unset.

    The caller that compiles sets the two fields about compilation. `compute_cycle_count` is in
    cycles of the processor's time stamp counter if it has one, else in nanoseconds.
    """

    compilation_cache_hit: bool = False
    compile_time_ms: int = 0
    compute_cycle_count: int = 0
    compute_time_ns: int = 0
    compute_and_transfer_time_ns: int = 0
    executable_size_in_bytes: int = 0

    @classmethod
    def since(
        cls, started: int, computing: int, computed: int, cycles: int = 0, byte_size: int = 0
    ) -> "Profile":
        """Return the cost of an execution that ends now; times are of `perf_counter_ns`.

        It computed from `computing` to `computed`. The profile counts `cycles` if there are any,
        else nanoseconds. `byte_size` is the size of the code.
        """
        spent, whole = computed - computing, time.perf_counter_ns() - started
        return cls(False, 0, cycles or spent, spent, whole, byte_size)


class Buffer(Protocol):
    """An immutable value on a device. Its memory is freed with its last reference."""

    @property
    def shape(self) -> Shape:
        """The shape; every array in it has a layout."""

    @property
    def device(self) -> Device:
        """The device of the value."""

    @property
    def byte_size(self) -> int:
        """The size of the value in bytes, elements of tuples included."""

    @property
    def elements(self) -> tuple["Buffer", ...]:
        """The elements of a tuple, always the same objects; empty for other shapes.

        Elements and tuples may be freed independently of each other.
        """

    def to_literal(self, shape: Shape | None = None) -> Literal:
        """Return the value for the host, in the layout of `shape` or else its own.

        Raises InvalidArgumentError when `shape` is not compatible.
        """


class Execution(NamedTuple):
    """The result of an execution and its cost."""

    output: Buffer
    profile: Profile


RoundRobinRun: TypeAlias = Callable[
    [Sequence[Sequence[Buffer]], Sequence[Device], Cancellation, GridParticipants],
    "list[Execution] | None",
]
"""Runs the participants of a grid, with these arguments on these devices, in one thread.

Returns None unless all collectives are native on this grid. Raises as Executable.execute, and
FailedPreconditionError if members of a group never arrive at a collective.
"""


class Executable(Protocol):
    """A program compiled for a platform. Thread-safe; executions may overlap."""

    @property
    def name(self) -> str:
        """The name of the module."""

    @property
    def program_shape(self) -> ProgramShape:
        """The signature; every array in it has a layout."""

    @property
    def memory(self) -> MemoryUse:
        """The bytes that an execution needs, as far as they are known before it runs."""

    @property
    def kept_bytes(self) -> int:
        """The bytes that it occupies while it exists: constants and code."""

    @property
    def work(self) -> ProgramWork | None:
        """The static count of the code's operations; None if it is not compiled to code."""

    @property
    def has_state(self) -> bool:
        """True if executions change the results of later ones, as generators of numbers do."""

    @property
    def channel_ends(self) -> tuple[frozenset[int], frozenset[int]]:
        """The channels on which the program sends, and those on which it receives."""

    @property
    def round_robin(self) -> "RoundRobinRun | None":
        """Runs it on all devices of its grid in one thread; None if each needs its own."""

    def execute(
        self, arguments: Sequence[Buffer], *, device: Device, options: ExecuteOptions
    ) -> Execution:
        """Run on `device` and wait for the result, which has the program's result layout.

        The result is the object that `options.launched` received, if that was called.

        Raises InvalidArgumentError if the arguments do not fit the signature, the cancellation's
        error once it is set, and errors of the program's instructions.
        """


class Backend(Protocol):
    """A platform with its devices."""

    @property
    def platform(self) -> str:
        """The name that operators choose the platform by."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices in the order of their ordinals."""

    @property
    def memory_bytes(self) -> int | None:
        """Total memory of the devices in bytes; None if values are in the host's memory."""

    def compile(
        self, module: HloModule, entry: ProgramShape, *, options: CompileOptions = DEFAULTS
    ) -> Executable:
        """Verify `module` and make it ready to run with the layouts of `entry`.

        An array of `entry` without layout gets the default one. A platform ignores `options` that
        have no meaning for it.

        Raises InvalidArgumentError for a module that breaks a rule, an incompatible `entry`, and
        options with unknown names. Raises ResourceExhaustedError for values larger than the
        platform takes, and executions that would not fit into its memory. Raises UnimplementedError
        for operations that the platform does not support, and InternalError with an incident id if
        compilation fails by a fault of the platform.
        """

    def prepare(self, is_over: Callable[[], bool] = ...) -> bool:
        """Load the platform, and compile code that programs share; other calls have priority.

        Returns True when that is done, False soon after `is_over` returns True. The platform is
        loaded in any case, and errors that make it unusable are raised. The rest only saves time
        later.
        """

    def to_device(self, literal: Literal, device: Device) -> Buffer:
        """Copy a value to `device`."""
