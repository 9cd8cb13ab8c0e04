"""Listings of code and buffer assignment as text tables."""

from collections.abc import Iterable, Iterator, Sequence

from xla_server.buffers import code as thunks
from xla_server.buffers.assignment import Assignment
from xla_server.buffers.liveness import Liveness, analyse, members


def buffer_listing(code: thunks.Code, assignment: Assignment) -> Iterator[str]:
    """Yield a line for each value: shape, bytes, memory, and the rows that it lives from and to."""
    liveness = analyse(code)
    spans = _spans(code, liveness)
    rows = [("value", "shape", "bytes", "place", "rows")]
    for number, value in enumerate(liveness.values):
        location = assignment.locations[value]
        where, size = f"{location.kind} {location.number}", str(value.byte_size)
        rows.append((f"%{value.name}", str(value.shape), size, where, spans[number]))
    yield f"arena: {assignment.arena_bytes} bytes"
    yield ""
    yield from table(rows)


def row_listing(code: thunks.Code) -> Iterator[str]:
    """Return the lines of a table of the code's rows with their numbers."""
    labels = {row: n for n, row in enumerate(code.rows) if isinstance(row, thunks.Label)}
    rows = [("row", "what", "writes", "reads")]
    for number, row in enumerate(code.rows):
        writes, reads = _names(thunks.writes(row)), _names(thunks.reads(row))
        rows.append((str(number), _row_text(row, labels), writes, reads))
    return table(rows)


def _spans(code: thunks.Code, liveness: Liveness) -> list[str]:
    """Return the first and last row that each value is live in; "-" if it is never live."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for n, row in enumerate(code.rows):
        touched = (liveness.numbers[value] for value in (*thunks.reads(row), *thunks.writes(row)))
        for number in (*members(liveness.after[n]), *touched):
            first.setdefault(number, n)
            last[number] = n
    return [
        f"{first[number]}-{last[number]}" if number in first else "-"
        for number in range(len(liveness.values))
    ]


def _row_text(row: thunks.Row, labels: dict[thunks.Label, int]) -> str:
    match row:
        case thunks.KernelThunk():
            return f"kernel {row.name}, {row.work_items} work items"
        case thunks.CopyThunk():
            return "copy"
        case thunks.HostThunk():
            return f"host {row.name}"
        case thunks.CollectiveThunk():
            return f"meet {row.host.name}, else host and go to {labels[row.end]}"
        case thunks.LeaveThunk():
            return f"leave {row.collective.host.name}"
        case thunks.Label():
            return f"{row.name}:"
        case thunks.Jump():
            return f"go to {labels[row.label]}"
        case thunks.Branch():
            return f"go to {labels[row.otherwise]} unless"
        case thunks.Switch():
            return "go to " + ", ".join(str(labels[label]) for label in row.labels)


def _names(values: Iterable[thunks.Value]) -> str:
    return ", ".join(f"%{value.name}" for value in values)


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Return the lines of a table, with columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
