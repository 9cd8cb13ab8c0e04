"""The interface of programs that are loaded into a machine: execution, results and memory."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from xla_contract.types.shape import Shape
from xla_server.backends.device_buffer import Memory
from xla_server.backends.platform import Device
from xla_server.buffers.assignment import Location, MemoryUse
from xla_server.buffers.code import Code, Thunk
from xla_server.buffers.work import ProgramWork
from xla_server.ops.evaluation import Array
from xla_server.runtime.host import RunContext
from xla_server.runtime.program import Program


class LoadedProgram(Protocol):
    """A program whose kernels and constants are loaded. Thread-safe; runs may overlap."""

    @property
    def code(self) -> Code:
        """The code that was loaded."""

    @property
    def thunks(self) -> Sequence[Thunk]:
        """The thunks that are executed, in the order in which `ThunkTimes` numbers them."""

    @property
    def memory(self) -> MemoryUse:
        """The bytes that an execution needs, known when the program is compiled."""

    @property
    def byte_size(self) -> int:
        """Bytes of the kernels' object code and of the constants."""

    @property
    def work(self) -> ProgramWork | None:
        """The static count of the code's operations; None if they were not counted."""

    @property
    def results(self) -> Sequence[Location]:
        """The memory of each result: its own, or that of a parameter or a constant."""

    @property
    def constants(self) -> Mapping[int, Memory]:
        """The memory of the constants that a run reads, by their numbers."""

    @property
    def round_robin(self) -> Program | None:
        """The program for participants in one thread; None if each needs its own."""

    def with_donated(self, donated: frozenset[int]) -> Self:
        """Return the program for runs that may overwrite the parameters with these numbers."""

    def run(
        self, addresses: Sequence[Any], device: Device, context: RunContext
    ) -> tuple[Mapping[int, Memory], int]:
        """Run; return the memory of results that have their own, by number, and the cycles.

        `addresses` are those of dense row-major arrays of the parameters' types on `device`, each a
        `DeviceBuffer.address`. Memory that `context.launched` received is not returned. Raises the
        cancellation's error once it is set, and errors of thunks of the host.
        """

    def run_on_arrays(
        self, arrays: Sequence[Array], shapes: Sequence[Shape], device: Device, context: RunContext
    ) -> tuple[list[Array], int]:
        """Run on arrays of the host; return the results, which have `shapes`, and the cycles.

        Collectives with other participants are not native here.
        """
