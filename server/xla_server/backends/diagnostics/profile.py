"""Profile of one execution: a text table, and a trace for Perfetto or Chrome."""

import dataclasses
import json
from collections.abc import Sequence

from xla_server.backends.diagnostics.dump import Dump
from xla_server.buffers import code as thunk_ir
from xla_server.buffers.listing import table
from xla_server.runtime.thunk_times import ThunkTimes


@dataclasses.dataclass(slots=True)
class TimedEntry:
    """A thunk of a program, or a step between programs, with its total time and count."""

    thunk: str
    what: str
    instruction: str
    category: str
    time: int = 0
    count: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One execution of a thunk or step, from `start` to `stop` in nanoseconds."""

    timed: TimedEntry
    start: int
    stop: int


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutionTimes:
    """Measurements of an execution: events with times, and the first of `run_count` runs."""

    timed: Sequence[TimedEntry]
    events: Sequence[Event]
    run_count: int

    def table(self) -> str:
        """Return the table: nanoseconds, share of the time and executions, longest first."""
        whole = sum(timed.time for timed in self.timed)
        lines = [("ns", "share", "runs", "ns/run", "thunk", "what", "instruction")]
        for timed in sorted(self.timed, key=lambda timed: -timed.time):
            if timed.count:
                share = f"{100 * timed.time / max(whole, 1):.1f}%"
                times = (str(timed.time), share, str(timed.count), str(timed.time // timed.count))
                lines.append((*times, timed.thunk, timed.what, timed.instruction))
        head = f"{whole} ns in {self.run_count} runs of {len(self.timed)} thunks\n\n"
        return head + "\n".join(table(lines)) + "\n"

    def trace(self) -> str:
        """Return the trace in the trace event format, with times in microseconds."""
        # Viewers require that an event follows the one that contains it.
        events = sorted(self.events, key=lambda event: (event.start, -event.stop))
        begun = events[0].start if events else 0
        trace = {
            "displayTimeUnit": "ns",
            "traceEvents": [
                {
                    "name": event.timed.instruction or event.timed.what,
                    "cat": event.timed.category,
                    "ph": "X",
                    "ts": (event.start - begun) / 1000,
                    "dur": (event.stop - event.start) / 1000,
                    "pid": 1,
                    "tid": 1,
                    "args": {"thunk": event.timed.thunk, "what": event.timed.what},
                }
                for event in events
            ],
            "otherData": {"runs": self.run_count, "runs_left_out": self.run_count - len(events)},
        }
        return json.dumps(trace)


def measured_thunks(
    code: thunk_ir.Code, thunks: Sequence[thunk_ir.Thunk], times: ThunkTimes, program: str = ""
) -> ExecutionTimes:
    """Return the times of a program's thunks; `program` is its name if there are several."""
    prefix = f"{program}:" if program else ""
    timed = [
        TimedEntry(f"{prefix}{number}", _what(thunk), _origin(code, thunk), thunk.kind, time, count)
        for number, (thunk, (time, count)) in enumerate(zip(thunks, times.totals, strict=True))
    ]
    events = [Event(timed[thunk], start, stop) for thunk, start, stop in times.spans]
    return ExecutionTimes(timed, events, times.run_count)


def write_profile(dump: Dump, measured: ExecutionTimes) -> None:
    """Write the profile of one execution, as a table and a trace, to its program's dump."""
    name = dump.next_profile()
    dump.write(f"{name}.txt", measured.table())
    dump.write(f"{name}.json", measured.trace())


def _what(thunk: thunk_ir.Thunk) -> str:
    match thunk:
        case thunk_ir.KernelThunk() | thunk_ir.HostThunk():
            named = thunk.name
        case thunk_ir.CopyThunk():
            named = f"%{thunk.target.name}"
        case thunk_ir.CollectiveThunk():
            named = thunk.host.name
        case thunk_ir.LeaveThunk():
            named = thunk.collective.host.name
        case thunk_ir.Jump():
            named = thunk.label.name
        case thunk_ir.Branch():
            named = thunk.otherwise.name
        case thunk_ir.Switch():
            named = f"%{thunk.index.name}"
        case thunk_ir.Label():
            return thunk.name
    return f"{thunk.kind} {named}"


def _origin(code: thunk_ir.Code, thunk: thunk_ir.Thunk) -> str:
    instruction = code.origins.get(thunk)
    return "" if instruction is None else f"{instruction.opcode} %{instruction.name}"
