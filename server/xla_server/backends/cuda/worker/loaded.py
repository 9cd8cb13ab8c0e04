"""Programs as a worker has them: kernels, segments that graphs can have, and what rows take."""

from collections.abc import Sequence
from typing import Any

from xla_server.backends.cuda.worker.device.driver import Driver
from xla_server.backends.cuda.worker.exchange.protocol import (
    Branch,
    Copy,
    DeviceProgram,
    DeviceRow,
    Jump,
    Launch,
    LibraryCall,
    Switch,
)

MEASUREMENTS = 2
"""Executions of a row that are timed; in the first, libraries may load code."""

_SHOWN = 200
"""Characters of a segment's launches that are told."""


class LoadedProgram:
    """A program whose kernels are loaded, with the addresses of its constants."""

    def __init__(self, driver: Driver, program: DeviceProgram, constants: Sequence[int]) -> None:
        self.program, self.constants = program, tuple(constants)
        symbols: dict[int, list[str]] = {}
        for kernel in program.kernels:
            symbols.setdefault(kernel.module, []).append(kernel.symbol)
        modules = {
            number: iter(driver.load(program.modules[number], names))
            for number, names in symbols.items()
        }
        self.kernels = [next(modules[kernel.module]) for kernel in program.kernels]
        plans = dict.fromkeys(row.plan for row in program.rows if isinstance(row, LibraryCall))
        self.plans: dict[Any, Any] = {plan: driver.prepare(plan) for plan in plans}
        self.segments = segments(program.rows)
        """The end of each segment by its first row."""
        self.launches = {first: self._launches(first, end) for first, end in self.segments.items()}
        """The names of what segments launch, by their first rows."""
        self._sums: dict[tuple[int, int], int] = {}
        self._measured = [0] * len(program.rows)
        self._nanoseconds = [0] * len(program.rows)

    def nanoseconds(self, first: int, end: int) -> int | None:
        """Return what rows took, launch and wait included; None before they are measured."""
        found = self._sums.get((first, end))
        if found is None and min(self._measured[first:end]) >= MEASUREMENTS:
            found = self._sums[first, end] = sum(self._nanoseconds[first:end])
        return found

    def measure(self, row: int, nanoseconds: int) -> None:
        """Note what a row took that was waited for: the last measurement counts."""
        self._nanoseconds[row] = nanoseconds
        self._measured[row] += 1

    def _launches(self, first: int, end: int) -> str:
        names = (self.name(row) for row in self.program.rows[first:end])
        return ", ".join(dict.fromkeys(filter(None, names)))[:_SHOWN]

    def name(self, row: DeviceRow) -> str:
        """Return the name of what a row launches: empty for other rows."""
        if isinstance(row, Launch):
            return self.program.kernels[row.kernel].symbol
        return type(row.plan).__name__ if isinstance(row, LibraryCall) else ""


def segments(rows: Sequence[DeviceRow]) -> dict[int, int]:
    """Return the end of each segment by its first row.

    A segment is two or more rows that a graph can have, one after the other: no jump leads into its
    midst.
    """
    targets = {target for row in rows for target in _targets(row)}
    found: dict[int, int] = {}
    first = 0
    for number in range(len(rows) + 1):
        ends = number == len(rows) or not _has_graphs(rows[number])
        if ends or number in targets:
            if number - first > 1:
                found[first] = number
            first = number + 1 if ends else number
    return found


def _has_graphs(row: DeviceRow) -> bool:
    return isinstance(row, Launch | Copy) or (isinstance(row, LibraryCall) and row.plan.has_graphs)


def _targets(row: DeviceRow) -> tuple[int, ...]:
    match row:
        case Jump(target):
            return (target,)
        case Branch(_, otherwise):
            return (otherwise,)
        case Switch(_, rows):
            return rows
    return ()
