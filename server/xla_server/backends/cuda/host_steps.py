"""Steps of a program that the host executes, because their thunks have no code for the device.

Consecutive thunks of kernels for processors and of Python, with the copies between them, are one
step. The values that it reads are downloaded, the native executor runs the thunks, and values that
later thunks need are uploaded.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xla_server.backends.cuda.buffers import as_bytes
from xla_server.backends.cuda.worker.supervisor.process import HostAccess
from xla_server.buffers import code as thunk_ir
from xla_server.buffers.assignment import assign
from xla_server.buffers.liveness import Liveness, analyse
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.codegen.kernel import Kernels
from xla_server.execution.memory_check import LARGE, require_bytes
from xla_server.ir.module import HloInstruction
from xla_server.runtime.blocks import BlockPool, block_size
from xla_server.runtime.host import RunContext
from xla_server.runtime.program import Program
from xla_server.runtime.threads import KernelThreads

THROUGH_HOST = "through the host"
"""The name of the host's steps in dumps and profiles."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostStep:
    """A step as a program of its own: the values that it reads are the parameters of its `code`.

    Its results are the values that the rest of the program needs. `instructions` are those that its
    thunks were made for.
    """

    code: thunk_ir.Code
    instructions: tuple[HloInstruction, ...]

    @property
    def reads(self) -> Sequence[thunk_ir.Value]:
        """The values that are downloaded."""
        return self.code.parameters

    @property
    def writes(self) -> Sequence[thunk_ir.Value]:
        """The values that are uploaded."""
        return self.code.results

    @property
    def kernel_count(self) -> int:
        """The number of kernel launches."""
        return sum(isinstance(thunk, thunk_ir.KernelThunk) for thunk in self.code.thunks)

    @property
    def contents(self) -> str:
        """The instructions, and the numbers of kernels and calls: `%s (sort), 1 kernel`."""
        calls = sum(isinstance(thunk, thunk_ir.HostThunk) for thunk in self.code.thunks)
        parts = [f"%{each.name} ({each.opcode})" for each in self.instructions]
        parts += counted(self.kernel_count, "kernel", "kernels")
        parts += counted(calls, "call of Python", "calls of Python")
        return ", ".join(parts)

    def __str__(self) -> str:
        return f"{THROUGH_HOST}: {self.contents}"


PlacedThunk: TypeAlias = thunk_ir.Thunk | HostStep
"""A thunk of the device, or a step of the host."""


def is_of_device(thunk: thunk_ir.Thunk) -> bool:
    """Return whether a thunk is executed on the device."""
    if isinstance(thunk, thunk_ir.KernelThunk):
        return isinstance(thunk.kernel, GridKernel | LibraryPlan)
    return not isinstance(thunk, thunk_ir.HostThunk)


def device_kernels(thunks: Sequence[PlacedThunk]) -> list[GridKernel]:
    """Return the kernels that the device executes, one entry for each launch."""
    kernels = (thunk.kernel for thunk in thunks if isinstance(thunk, thunk_ir.KernelThunk))
    return [kernel for kernel in kernels if isinstance(kernel, GridKernel)]


def placed_thunks(code: thunk_ir.Code) -> list[PlacedThunk]:
    """Return the thunks of a program in order, those of the host grouped into steps."""
    liveness = analyse(code)
    found: list[PlacedThunk] = []
    begin = 0
    while begin < len(code.thunks):
        end = _end(code.thunks, begin)
        if end == begin:
            found.append(code.thunks[begin])
            end += 1
        else:
            found.append(_step(code, liveness, begin, end))
        begin = end
    return found


def _end(thunks: Sequence[thunk_ir.Thunk], begin: int) -> int:
    """Return the end of the step that begins at a thunk; `begin` for a thunk of the device."""
    end = begin
    for number in range(begin, len(thunks)):
        thunk = thunks[number]
        if not is_of_device(thunk):
            end = number + 1
        elif not isinstance(thunk, thunk_ir.CopyThunk) or end == begin:
            break
    return end


def _step(code: thunk_ir.Code, liveness: Liveness, begin: int, end: int) -> HostStep:
    thunks = code.thunks[begin:end]
    given: dict[thunk_ir.Value, None] = {}
    written: dict[thunk_ir.Value, None] = {}
    for thunk in thunks:
        given |= dict.fromkeys(value for value in thunk_ir.reads(thunk) if value not in written)
        written |= dict.fromkeys(thunk_ir.writes(thunk))
    results = [value for value in written if liveness.is_live_after(value, end - 1)]
    constants = {value: code.constants[value] for value in given if value in code.constants}
    parameters = [value for value in given if value not in constants]
    origins = {thunk: code.origins[thunk] for thunk in thunks if thunk in code.origins}
    part = thunk_ir.Code(list(thunks), parameters, constants, results, origins, chunks=code.chunks)
    return HostStep(part, tuple(dict.fromkeys(origins.values())))


def counted(count: int, one: str, many: str) -> list[str]:
    """Return a count with its noun, `3 kernels`; nothing for none."""
    return [f"{count} {one if count == 1 else many}"] if count else []


class HostSteps:
    """The kernels, threads and memory of this process that the steps of all programs share."""

    def __init__(self, kernels: Kernels, threads: KernelThreads) -> None:
        self._kernels, self._threads, self._blocks = kernels, threads, BlockPool()

    def load(self, step: HostStep) -> "LoadedHostStep":
        """Compile a step; raises KernelError for a kernel that does not compile."""
        code = step.code
        # The step is the only user of downloaded values, and may overwrite them.
        assignment = assign(code, frozenset(range(len(code.parameters))))
        program = Program(code, assignment, self._kernels, self._threads, self._blocks)
        return LoadedHostStep(step, program, self._blocks)


class LoadedHostStep:
    """A compiled step. Thread-safe; runs may overlap."""

    def __init__(self, step: HostStep, program: Program, blocks: BlockPool) -> None:
        self.step = step
        self._program = program
        self._blocks = blocks
        self._bytes = program.memory.peak
        self._shapes = [value.shape for value in step.writes]

    @property
    def byte_size(self) -> int:
        """Bytes of code and constants."""
        return self._program.byte_size

    def run(
        self, access: HostAccess, slots: Mapping[thunk_ir.Value, int], context: RunContext
    ) -> None:
        """Download the values that the step reads, run it, and upload its results.

        `slots` are those of its values. Raises errors of its thunks, and ResourceExhaustedError if
        the host has too little memory.
        """
        if self._bytes >= LARGE:
            require_bytes(self._bytes, f"a step {self.step}")
        arrays = []
        for value in self.step.reads:
            array = self._blocks.allocate(block_size(value.byte_size)).array(value.shape)
            access.read(slots[value], as_bytes(array))
            arrays.append(array)
        # The times of `context` are per step, so the step's thunks are not measured.
        own = RunContext(context.options, lambda _: context.host)
        results, _ = self._program.run_on_arrays(arrays, self._shapes, None, own)
        for value, array in zip(self.step.writes, results, strict=True):
            access.write(slots[value], as_bytes(array))
