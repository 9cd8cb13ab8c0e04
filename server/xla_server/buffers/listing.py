"""Listings of code and buffer assignment as text tables."""

from collections.abc import Iterable, Iterator, Sequence

from xla_server.buffers import code as thunk_ir
from xla_server.buffers.assignment import Assignment
from xla_server.buffers.intervals import Intervals
from xla_server.buffers.liveness import analyse


def buffer_listing(code: thunk_ir.Code, assignment: Assignment) -> Iterator[str]:
    """Yield a line for each value: shape, bytes, memory, first and last thunk of its life."""
    liveness = analyse(code)
    rows = [("value", "shape", "bytes", "place", "thunks")]
    for value, number in liveness.numbers.items():
        location = assignment.locations[value]
        span = _span(liveness.lifetimes[number])
        where, size = f"{location.kind} {location.number}", str(value.byte_size)
        rows.append((f"%{value.name}", str(value.shape), size, where, span))
    yield f"arena: {assignment.arena_bytes} bytes"
    yield ""
    yield from table(rows)


def thunk_listing(code: thunk_ir.Code) -> Iterator[str]:
    """Return the lines of a table of the code's thunks with their numbers."""
    labels = {thunk: n for n, thunk in enumerate(code.thunks) if isinstance(thunk, thunk_ir.Label)}
    rows = [("thunk", "what", "writes", "reads")]
    for number, thunk in enumerate(code.thunks):
        writes, reads = _names(thunk_ir.writes(thunk)), _names(thunk_ir.reads(thunk))
        rows.append((str(number), _thunk_text(thunk, labels), writes, reads))
    return table(rows)


def _span(lifetime: Intervals) -> str:
    """Return the first and last thunk that a value is live in; "-" if there is none."""
    points = [point for interval in lifetime for point in interval]
    return f"{max(points[0] // 2, 0)}-{(points[-1] - 1) // 2}" if max(points) > 0 else "-"


def _thunk_text(thunk: thunk_ir.Thunk, labels: dict[thunk_ir.Label, int]) -> str:
    match thunk:
        case thunk_ir.KernelThunk():
            return f"kernel {thunk.name}, {thunk.work_items} work items"
        case thunk_ir.CopyThunk():
            return "copy"
        case thunk_ir.HostThunk():
            return f"host {thunk.name}"
        case thunk_ir.CollectiveThunk():
            return f"meet {thunk.host.name}, else host and go to {labels[thunk.end]}"
        case thunk_ir.LeaveThunk():
            return f"leave {thunk.collective.host.name}"
        case thunk_ir.Label():
            return f"{thunk.name}:"
        case thunk_ir.Jump():
            return f"go to {labels[thunk.label]}"
        case thunk_ir.Branch():
            return f"go to {labels[thunk.otherwise]} unless"
        case thunk_ir.Switch():
            return "go to " + ", ".join(str(labels[label]) for label in thunk.labels)


def _names(values: Iterable[thunk_ir.Value]) -> str:
    return ", ".join(f"%{value.name}" for value in values)


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Return the lines of a table, with columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
