"""Encoding of code and its buffer assignment as the records that a device's worker executes."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_server.backends.cuda.buffers import as_bytes
from xla_server.backends.cuda.host_steps import HostStep, PlacedThunk
from xla_server.backends.cuda.toolchain import symbol_of
from xla_server.backends.cuda.worker.exchange import protocol
from xla_server.backends.cuda.worker.exchange.protocol import (
    DeviceKernel,
    DeviceProgram,
    DeviceThunk,
)
from xla_server.buffers import code as thunk_ir
from xla_server.buffers.assignment import Assignment, Location
from xla_server.buffers.slots import addressed, copies_nothing, label_positions, of_kind
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """A program as a worker loads it, and the server's tables for it.

    `thunks` are in the order of the program. `steps` are those of the host, by number, each with
    the slots of its values. `results` are the indices of results with memory of
    their own, and `constants` those of constants.
    """

    program: DeviceProgram
    thunks: tuple[PlacedThunk, ...]
    steps: tuple[tuple[HostStep, Mapping[thunk_ir.Value, int]], ...]
    results: tuple[int, ...]
    constants: tuple[int, ...]


def encode(
    code: thunk_ir.Code,
    thunks: Sequence[PlacedThunk],
    assignment: Assignment,
    modules: Mapping[str, DeviceModule],
) -> Encoded:
    """Return the program of these thunks, whose kernels are in `modules` by their keys."""
    kept = [thunk for thunk in thunks if not copies_nothing(thunk, assignment)]
    named = [assignment.locations[value] for thunk in kept for value in _named(thunk)]
    parameters = [Location("parameter", number) for number in range(len(code.parameters))]
    results = of_kind("result", assignment.results)
    constants = of_kind("constant", [*named, *assignment.results])
    arena = of_kind("arena", named)
    order = [*parameters, *results, *constants, *arena, _FLAG]
    slots = {location: number for number, location in enumerate(order)}
    tables = _Tables(kept, assignment, slots, modules)
    arrays = list(code.constants.values())
    program = DeviceProgram(
        tuple(module.code for module in tables.modules),
        tuple(tables.kernels),
        tuple(tables.thunks),
        len(code.parameters),
        tuple(as_bytes(arrays[location.number]).tobytes() for location in constants),
        tuple(code.results[location.number].byte_size for location in results),
        tuple(location.number for location in arena),
        assignment.arena_bytes,
    )
    return Encoded(
        program,
        tuple(thunk for thunk in kept if not isinstance(thunk, thunk_ir.Label)),
        tuple(tables.steps),
        tuple(location.number for location in results),
        tuple(location.number for location in constants),
    )


_FLAG = Location("cancellation", 0)


class _Tables:
    """The program's thunks as a worker has them, without labels, and the records they refer to."""

    def __init__(
        self,
        thunks: Sequence[PlacedThunk],
        assignment: Assignment,
        slots: Mapping[Location, int],
        modules: Mapping[str, DeviceModule],
    ) -> None:
        self._assignment, self._slots, self._compiled = assignment, slots, modules
        self._labels = label_positions(thunks)
        self.modules: dict[DeviceModule, int] = {}
        self.kernels: dict[DeviceKernel, int] = {}
        self.steps: list[tuple[HostStep, Mapping[thunk_ir.Value, int]]] = []
        self.thunks = [
            self._encoded(thunk) for thunk in thunks if not isinstance(thunk, thunk_ir.Label)
        ]

    def _slot(self, value: thunk_ir.Value) -> int:
        return self._slots[
            _FLAG if value is thunk_ir.CANCELLATION else self._assignment.locations[value]
        ]

    def _encoded(self, thunk: PlacedThunk) -> DeviceThunk:
        match thunk:
            case thunk_ir.KernelThunk(kernel=GridKernel() as grid):
                return protocol.Launch(self._kernel(grid), self._slots_of(_buffers(thunk, grid)))
            case thunk_ir.KernelThunk(kernel=LibraryPlan() as plan):
                return protocol.LibraryCall(plan, self._slots_of(thunk.arguments))
            case thunk_ir.CopyThunk():
                target, source = self._slot(thunk.target), self._slot(thunk.source)
                return protocol.Copy(target, source, thunk.target.byte_size)
            case thunk_ir.Jump():
                return protocol.Jump(self._labels[thunk.label])
            case thunk_ir.Branch():
                return protocol.Branch(self._slot(thunk.predicate), self._labels[thunk.otherwise])
            case thunk_ir.Switch():
                targets = tuple(self._labels[label] for label in thunk.labels)
                return protocol.Switch(self._slot(thunk.index), targets)
            case HostStep():
                values = (*thunk.reads, *thunk.writes)
                self.steps.append((thunk, {value: self._slot(value) for value in values}))
                return protocol.HostStep(len(self.steps) - 1)
        raise AssertionError(thunk)

    def _kernel(self, grid: GridKernel) -> int:
        module = self._compiled[grid.key]
        number = self.modules.setdefault(module, len(self.modules))
        found = DeviceKernel(number, symbol_of(grid.key), grid.blocks, grid.threads)
        return self.kernels.setdefault(found, len(self.kernels))

    def _slots_of(self, values: Sequence[thunk_ir.Value]) -> tuple[int, ...]:
        return tuple(map(self._slot, values))


def _buffers(thunk: thunk_ir.KernelThunk, grid: GridKernel) -> list[thunk_ir.Value]:
    """Return the arguments of a launch: those that the kernel accesses, in its order."""
    return [thunk.arguments[buffer.number] for buffer in grid.kernel.buffers]


def _named(thunk: PlacedThunk) -> tuple[thunk_ir.Value, ...]:
    return (*thunk.reads, *thunk.writes) if isinstance(thunk, HostStep) else addressed(thunk)
