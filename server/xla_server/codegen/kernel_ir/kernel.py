"""Kernels of the loop IR."""

import dataclasses
import functools

from xla_server.codegen.kernel_ir.analysis.counts import KernelWork, work_of
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Buffer, SharedArray, StackArray
from xla_server.codegen.kernel_ir.numba_text import NumbaText
from xla_server.codegen.kernel_ir.statements import For, ParallelFor, Statement
from xla_server.codegen.kernel_ir.walk import walk

VECTOR_ITEMS = 16
"""Elements of 32 bits in a vector of 64 bytes, the widest of all processors."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Memory and statements of a kernel, with parallel loops at the outermost level only.

    Statements outside of the parallel loops are executed once for each call.
    """

    buffers: tuple[Buffer, ...]
    stack: tuple[StackArray, ...]
    body: tuple[Statement, ...]
    effort: Effort = Effort.OPTIMISED
    shared: tuple[SharedArray, ...] = ()

    @property
    def parts(self) -> tuple[ParallelFor, ...]:
        """The parallel loops."""
        return tuple(statement for statement in self.body if isinstance(statement, ParallelFor))

    @property
    def items(self) -> int:
        """Work items of a launch; a kernel without parallel loops has one."""
        return sum(part.items for part in self.parts) or 1

    @property
    def few_items(self) -> int | None:
        """The number of work items, which code depends on, if they fill no vector; else None."""
        return self.items if self.parts and self.items < VECTOR_ITEMS else None

    @functools.cached_property
    def text(self) -> str:
        """The kernel as numba source."""
        return NumbaText().kernel(self.buffers, (*self.stack, *self.shared), self.body)

    @functools.cached_property
    def work(self) -> KernelWork:
        """The work of a call before its first work item, and of a work item."""
        return work_of(self.body)

    @functools.cached_property
    def key(self) -> str:
        """The text, and all else that the machine code depends on: effort, marked loops, items."""
        loops = [each for each, _ in walk(self.body) if isinstance(each, For)]
        unrolled = [number for number, loop in enumerate(loops) if loop.unrolled]
        vectorised = [number for number, loop in enumerate(loops) if loop.vectorised]
        marked = f"unrolled loops {unrolled}, vectorised loops {vectorised}"
        items = "" if self.few_items is None else f", {self.few_items} work items"
        return f"# {self.effort.name.lower()}, {marked}{items}\n{self.text}"
