"""The interface of programs that are loaded into a machine: its kernels, launches and memory."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.shape import Shape
from xla_server.backends.device_buffer import Memory
from xla_server.backends.platform import Device
from xla_server.buffers.assignment import Location, MemoryUse
from xla_server.buffers.code import Code, Row
from xla_server.buffers.work import ProgramWork
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import MeetingPlan
from xla_server.ops.evaluation import Array
from xla_server.runtime.host import RunContext


class ProgramInTurns(Protocol):
    """A program that leaves native code for nothing but meetings, which may be native, too."""

    @property
    def plan(self) -> MeetingPlan:
        """Its native meetings."""

    def run_in_turns(
        self,
        addresses: Sequence[Sequence[Any]],
        cancellation: Cancellation,
        records: Sequence[int],
        grid: DeviceGrid,
    ) -> tuple[Sequence[tuple[Mapping[int, Memory], int]], Mapping[int, int]]:
        """Return the result of `LoadedProgram.run` for each participant, and the blocked ones.

        The participants' addresses are in the order of `records`, those of their records of
        meetings. Blocked participants, which wait for others that never arrive, map to the
        number of their meeting; then there are no results.
        """


class LoadedProgram(Protocol):
    """A program whose kernels and constants are loaded. Any thread may run it at any time."""

    @property
    def code(self) -> Code:
        """The code that was loaded."""

    @property
    def rows(self) -> Sequence[Row]:
        """The rows that are run, as `RowTimes` numbers them."""

    @property
    def memory(self) -> MemoryUse:
        """The bytes that an execution needs, known before it starts."""

    @property
    def byte_size(self) -> int:
        """Bytes of the kernels' object code and of the constants."""

    @property
    def work(self) -> ProgramWork | None:
        """The static count of its code."""

    @property
    def results(self) -> Sequence[Location]:
        """The memory of each result: in memory of its own, in a parameter's or in a constant's."""

    @property
    def constants(self) -> Mapping[int, Memory]:
        """The memory of the constants that a run needs, by their numbers."""

    @property
    def in_turns(self) -> "ProgramInTurns | None":
        """The same for participants in one thread; None if each needs its own."""

    def with_donated(self, donated: frozenset[int]) -> Self:
        """Return the program for runs that may write over these parameters."""

    def run(
        self, addresses: Sequence[Any], device: Device, context: RunContext
    ) -> tuple[Mapping[int, Memory], int]:
        """Return the memory of the results that have their own, by number, and the cycles it took.

        `addresses` are those of dense row-major arrays of the parameters' types on `device`, as
        `DeviceBuffer.address` returns them. Raises the error of the cancellation once it is set,
        and those of host rows.
        """

    def run_on_arrays(
        self, arrays: Sequence[Array], shapes: Sequence[Shape], device: Device, context: RunContext
    ) -> tuple[list[Array], int]:
        """Run on arrays of the host; return the results, which have `shapes`, and the cycles.

        The program meets other participants by its host rows alone.
        """
