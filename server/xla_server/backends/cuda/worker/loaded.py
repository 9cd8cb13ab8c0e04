"""Programs as a worker loads them: kernels, segments for graphs, and times of rows."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xla_server.backends.cuda.worker.device.driver import Driver
from xla_server.backends.cuda.worker.exchange import protocol
from xla_server.backends.cuda.worker.exchange.messages import PlansRefusedError
from xla_server.backends.cuda.worker.libraries import LibraryError
from xla_server.backends.cuda.worker.segments import Segment, segments, slots_of
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.target.gpu.device_description import GPUS

MEASUREMENTS = 2
"""Number of executions of a row that are timed; in the first, libraries may load code."""

_SHOWN = 200
"""Length limit of the list of a segment's launches in errors, in characters."""


class WorkerProgram:
    """A program whose kernels are loaded, with the addresses of its constants."""

    def __init__(
        self, driver: Driver, program: protocol.DeviceProgram, constants: Sequence[int]
    ) -> None:
        self.program, self.constants = program, tuple(constants)
        symbols: dict[int, list[str]] = {}
        for kernel in program.kernels:
            symbols.setdefault(kernel.module, []).append(kernel.symbol)
        modules = {
            number: iter(driver.load(program.modules[number], names))
            for number, names in symbols.items()
        }
        self.kernels = [next(modules[kernel.module]) for kernel in program.kernels]
        plans = dict.fromkeys(
            row.plan for row in program.rows if isinstance(row, protocol.LibraryCall)
        )
        self.plans = _prepared(driver, plans)
        with_jumps = GPUS[driver.description.capability].has_conditional_graphs
        self.segments = segments(program.rows, with_jumps=with_jumps)
        """Rows that can be one graph, by the first row."""
        self.launches = {
            each: self._launches(each) for found in self.segments.values() for each in found
        }
        """The names of the kernels and calls that segments launch."""
        self.slots = {
            each: tuple(dict.fromkeys(itertools.chain(*map(slots_of, self._rows(each)))))
            for each in self.launches
        }
        """The slots that the rows of segments use."""
        self._sums: dict[tuple[int, int], int] = {}
        # A jump takes no time on the device.
        self._measured = [
            MEASUREMENTS
            if isinstance(row, protocol.Jump | protocol.Branch | protocol.Switch)
            else 0
            for row in program.rows
        ]
        self._nanoseconds = [0] * len(program.rows)

    def nanoseconds(self, first: int, end: int) -> int | None:
        """Return the time of rows, launch and wait included; None before they are measured."""
        found = self._sums.get((first, end))
        if found is None and min(self._measured[first:end]) >= MEASUREMENTS:
            found = self._sums[first, end] = sum(self._nanoseconds[first:end])
        return found

    def measure(self, row: int, nanoseconds: int) -> None:
        """Record the measured time of a row; the last measurement counts."""
        self._nanoseconds[row] = nanoseconds
        self._measured[row] += 1

    def _launches(self, segment: Segment) -> str:
        names = map(self.name, self._rows(segment))
        return ", ".join(dict.fromkeys(filter(None, names)))[:_SHOWN]

    def _rows(self, segment: Segment) -> Sequence[protocol.DeviceRow]:
        return self.program.rows[segment.first : segment.end]

    def name(self, row: protocol.DeviceRow) -> str:
        """Return the name of the kernel or call that a row launches; empty for other rows."""
        if isinstance(row, protocol.Launch):
            return self.program.kernels[row.kernel].symbol
        return type(row.plan).__name__ if isinstance(row, protocol.LibraryCall) else ""


def _prepared(driver: Driver, plans: Iterable[LibraryPlan]) -> Mapping[LibraryPlan, Any]:
    """Return plans as their libraries have them.

    Raises LibraryError, or PlansRefusedError if kernels can compute all that was refused.
    """
    found: dict[LibraryPlan, Any] = {}
    reasons: dict[LibraryPlan, str] = {}
    for plan in plans:
        try:
            found[plan] = driver.prepare(plan)
        except LibraryError as error:
            if not plan.is_replaceable:
                raise
            reasons[plan] = str(error)
    if reasons:
        raise PlansRefusedError(reasons)
    return found
