"""Where the time of one execution went: a table to read, and a trace for Perfetto or Chrome."""

import json
from collections.abc import Sequence

from xla_server.backends.dump import Dump
from xla_server.buffers.code import (
    Branch,
    Code,
    CopyThunk,
    HostThunk,
    Jump,
    KernelThunk,
    Label,
    Row,
    Switch,
)
from xla_server.buffers.listing import table
from xla_server.runtime.row_times import RowTimes


def write_profile(dump: Dump, code: Code, rows: Sequence[Row], times: RowTimes) -> None:
    """Write the profile of one execution into the dump of its program, in both forms."""
    name = dump.next_profile()
    dump.write(f"{name}.txt", profile_table(code, rows, times))
    dump.write(f"{name}.json", profile_trace(code, rows, times))


def profile_table(code: Code, rows: Sequence[Row], times: RowTimes) -> str:
    """Rows with nanoseconds, share of the time and number of runs, those that took most first."""
    totals = times.totals
    whole = sum(time for time, _ in totals)
    lines = [("ns", "share", "runs", "ns/run", "row", "what", "instruction")]
    order = sorted(range(len(rows)), key=lambda number: -totals[number][0])
    for number in order:
        time, count = totals[number]
        if count:
            share = f"{100 * time / max(whole, 1):.1f}%"
            what, origin = _what(rows[number]), _origin(code, rows[number])
            lines.append(
                (str(time), share, str(count), str(time // count), str(number), what, origin)
            )
    head = f"{whole} ns in {times.run_count} runs of {len(rows)} rows\n\n"
    return head + "\n".join(table(lines)) + "\n"


def profile_trace(code: Code, rows: Sequence[Row], times: RowTimes) -> str:
    """The trace event format: an event for each of the first runs of rows, in microseconds."""
    spans = times.spans
    begun = spans[0].start if spans else 0
    events = [
        {
            "name": _origin(code, rows[span.row]) or _what(rows[span.row]),
            "cat": type(rows[span.row]).__name__.removesuffix("Thunk").lower(),
            "ph": "X",
            "ts": (span.start - begun) / 1000,
            "dur": (span.stop - span.start) / 1000,
            "pid": 1,
            "tid": 1,
            "args": {"row": span.row, "what": _what(rows[span.row])},
        }
        for span in spans
    ]
    trace = {
        "displayTimeUnit": "ns",
        "traceEvents": events,
        "otherData": {"runs": times.run_count, "runs_left_out": times.run_count - len(spans)},
    }
    return json.dumps(trace)


def _what(row: Row) -> str:
    match row:
        case KernelThunk():
            return f"kernel {row.name}"
        case CopyThunk():
            return f"copy %{row.target.name}"
        case HostThunk():
            return f"host {row.name}"
        case Jump():
            return f"jump {row.label.name}"
        case Branch():
            return f"branch {row.otherwise.name}"
        case Switch():
            return f"switch %{row.index.name}"
        case Label():
            return row.name


def _origin(code: Code, row: Row) -> str:
    instruction = code.origins.get(row)
    return "" if instruction is None else f"{instruction.opcode} %{instruction.name}"
