"""Programs as a worker loads them: kernels, segments for graphs, and times of thunks."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xla_server.backends.cuda.worker.device.driver import Driver
from xla_server.backends.cuda.worker.exchange import protocol
from xla_server.backends.cuda.worker.exchange.messages import PlansRefusedError
from xla_server.backends.cuda.worker.libraries import LibraryError
from xla_server.backends.cuda.worker.segments import Segment, segments, slots_of
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.target.gpu.properties import GPUS

MEASUREMENTS = 2
"""Number of executions of a thunk that are timed; in the first, libraries may load code."""

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
            thunk.plan for thunk in program.thunks if isinstance(thunk, protocol.LibraryCall)
        )
        self.plans = _prepared(driver, plans)
        with_jumps = GPUS[driver.description.capability].has_conditional_graphs
        self.segments = segments(program.thunks, with_jumps=with_jumps)
        """Thunks that can be one graph, by the first thunk."""
        self.launches = {
            each: self._launches(each) for found in self.segments.values() for each in found
        }
        """The names of the kernels and calls that segments launch."""
        self.slots = {
            each: tuple(dict.fromkeys(itertools.chain(*map(slots_of, self._thunks(each)))))
            for each in self.launches
        }
        """The slots that the thunks of segments use."""
        self._sums: dict[tuple[int, int], int] = {}
        # A jump takes no time on the device.
        self._measured = [
            MEASUREMENTS
            if isinstance(thunk, protocol.Jump | protocol.Branch | protocol.Switch)
            else 0
            for thunk in program.thunks
        ]
        self._nanoseconds = [0] * len(program.thunks)

    def nanoseconds(self, first: int, end: int) -> int | None:
        """Return the time of thunks, launch and wait included; None before they are measured."""
        found = self._sums.get((first, end))
        if found is None and min(self._measured[first:end]) >= MEASUREMENTS:
            found = self._sums[first, end] = sum(self._nanoseconds[first:end])
        return found

    def measure(self, thunk: int, nanoseconds: int) -> None:
        """Record the measured time of a thunk; the last measurement counts."""
        self._nanoseconds[thunk] = nanoseconds
        self._measured[thunk] += 1

    def _launches(self, segment: Segment) -> str:
        names = map(self.name, self._thunks(segment))
        return ", ".join(dict.fromkeys(filter(None, names)))[:_SHOWN]

    def _thunks(self, segment: Segment) -> Sequence[protocol.DeviceThunk]:
        return self.program.thunks[segment.first : segment.end]

    def name(self, thunk: protocol.DeviceThunk) -> str:
        """Return the name of the kernel or call that a thunk launches; empty for other thunks."""
        if isinstance(thunk, protocol.Launch):
            return self.program.kernels[thunk.kernel].symbol
        return type(thunk.plan).__name__ if isinstance(thunk, protocol.LibraryCall) else ""


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
