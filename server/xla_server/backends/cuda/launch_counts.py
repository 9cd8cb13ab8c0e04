"""Static counts of a program's launches, operations and bytes on a GPU, without a device."""

from collections.abc import Iterable
from typing import NamedTuple

from xla_server.backends.cuda.host_steps import PlacedThunk
from xla_server.buffers.code import CopyThunk, KernelThunk
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan


class LaunchCounts(NamedTuple):
    """Launches, operations in additions, and bytes of arrays that are read or written.

    An array counts once for a launch, however often its elements are read. Copies are launches,
    too; workspaces of libraries are no arrays.
    """

    launches: int = 0
    operations: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        noun = "launch" if self.launches == 1 else "launches"
        return f"{self.launches} {noun}, {self.operations} operations, {self.bytes} bytes"

    @classmethod
    def of(cls, thunk: PlacedThunk) -> "LaunchCounts":
        """Return the counts of one thunk; zeros for a jump or a step of the host."""
        match thunk:
            case CopyThunk():
                return cls(1, 0, 2 * thunk.target.byte_size)
            case KernelThunk(kernel=GridKernel(kernel=kernel)):
                work = kernel.work
                done = work.prologue.operations + work.item.operations * kernel.items
                return cls(1, round(done), sum(value.byte_size for value in thunk.arguments))
            case KernelThunk(kernel=LibraryPlan() as plan):
                arrays = thunk.arguments[:-1] if plan.workspace_bytes else thunk.arguments
                return cls(1, plan.operations, sum(value.byte_size for value in arrays))
        return cls()

    @classmethod
    def all(cls, thunks: Iterable[PlacedThunk]) -> "LaunchCounts":
        """Return the sum over thunks, each executed once."""
        return cls(*map(sum, zip(*map(cls.of, thunks), strict=True)))
