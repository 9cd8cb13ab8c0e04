"""Encoding of code and its buffer assignment as the records that a device's worker executes."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_server.backends.cuda.buffers import as_bytes
from xla_server.backends.cuda.host_steps import HostStep, PlacedRow
from xla_server.backends.cuda.toolchain import symbol_of
from xla_server.backends.cuda.worker.exchange import protocol
from xla_server.backends.cuda.worker.exchange.protocol import DeviceKernel, DeviceProgram, DeviceRow
from xla_server.buffers import code as thunks
from xla_server.buffers.assignment import Assignment, Location
from xla_server.buffers.slots import addressed, copies_nothing, label_positions, of_kind
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """A program as a worker loads it, and the server's tables for it.

    `rows` are the thunks in the order of the program's rows. `steps` are those of the host, by
    number, each with the slots of its values. `results` are the indices of results with memory of
    their own, and `constants` those of constants.
    """

    program: DeviceProgram
    rows: tuple[PlacedRow, ...]
    steps: tuple[tuple[HostStep, Mapping[thunks.Value, int]], ...]
    results: tuple[int, ...]
    constants: tuple[int, ...]


def encode(
    code: thunks.Code,
    rows: Sequence[PlacedRow],
    assignment: Assignment,
    modules: Mapping[str, DeviceModule],
) -> Encoded:
    """Return the program of these rows, whose kernels are in `modules` by their keys."""
    kept = [row for row in rows if not copies_nothing(row, assignment)]
    named = [assignment.locations[value] for row in kept for value in _named(row)]
    parameters = [Location("parameter", number) for number in range(len(code.parameters))]
    results = of_kind("result", assignment.results)
    constants = of_kind("constant", [*named, *assignment.results])
    arena = of_kind("arena", named)
    order = [*parameters, *results, *constants, *arena, _FLAG]
    slots = {place: number for number, place in enumerate(order)}
    tables = _Tables(kept, assignment, slots, modules)
    arrays = list(code.constants.values())
    program = DeviceProgram(
        tuple(module.code for module in tables.modules),
        tuple(tables.kernels),
        tuple(tables.rows),
        len(code.parameters),
        tuple(as_bytes(arrays[place.number]).tobytes() for place in constants),
        tuple(code.results[place.number].byte_size for place in results),
        tuple(place.number for place in arena),
        assignment.arena_bytes,
    )
    return Encoded(
        program,
        tuple(row for row in kept if not isinstance(row, thunks.Label)),
        tuple(tables.steps),
        tuple(place.number for place in results),
        tuple(place.number for place in constants),
    )


_FLAG = Location("cancellation", 0)


class _Tables:
    """A worker's rows, one per thunk or step except labels, and the records they refer to."""

    def __init__(
        self,
        rows: Sequence[PlacedRow],
        assignment: Assignment,
        slots: Mapping[Location, int],
        modules: Mapping[str, DeviceModule],
    ) -> None:
        self._assignment, self._slots, self._compiled = assignment, slots, modules
        self._labels = label_positions(rows)
        self.modules: dict[DeviceModule, int] = {}
        self.kernels: dict[DeviceKernel, int] = {}
        self.steps: list[tuple[HostStep, Mapping[thunks.Value, int]]] = []
        self.rows = [self._encoded(row) for row in rows if not isinstance(row, thunks.Label)]

    def _slot(self, value: thunks.Value) -> int:
        return self._slots[
            _FLAG if value is thunks.CANCELLATION else self._assignment.locations[value]
        ]

    def _encoded(self, row: PlacedRow) -> DeviceRow:
        match row:
            case thunks.KernelThunk(kernel=GridKernel() as grid):
                return protocol.Launch(self._kernel(grid), self._slots_of(_buffers(row, grid)))
            case thunks.KernelThunk(kernel=LibraryPlan() as plan):
                return protocol.LibraryCall(plan, self._slots_of(row.arguments))
            case thunks.CopyThunk():
                target, source = self._slot(row.target), self._slot(row.source)
                return protocol.Copy(target, source, row.target.byte_size)
            case thunks.Jump():
                return protocol.Jump(self._labels[row.label])
            case thunks.Branch():
                return protocol.Branch(self._slot(row.predicate), self._labels[row.otherwise])
            case thunks.Switch():
                targets = tuple(self._labels[label] for label in row.labels)
                return protocol.Switch(self._slot(row.index), targets)
            case HostStep():
                values = (*row.reads, *row.writes)
                self.steps.append((row, {value: self._slot(value) for value in values}))
                return protocol.HostStep(len(self.steps) - 1)
        raise AssertionError(row)

    def _kernel(self, grid: GridKernel) -> int:
        module = self._compiled[grid.key]
        number = self.modules.setdefault(module, len(self.modules))
        found = DeviceKernel(number, symbol_of(grid.key), grid.blocks, grid.threads)
        return self.kernels.setdefault(found, len(self.kernels))

    def _slots_of(self, values: Sequence[thunks.Value]) -> tuple[int, ...]:
        return tuple(map(self._slot, values))


def _buffers(row: thunks.KernelThunk, grid: GridKernel) -> list[thunks.Value]:
    """Return the arguments of a launch: those that the kernel accesses, in its order."""
    return [row.arguments[buffer.number] for buffer in grid.kernel.buffers]


def _named(row: PlacedRow) -> tuple[thunks.Value, ...]:
    return (*row.reads, *row.writes) if isinstance(row, HostStep) else addressed(row)
