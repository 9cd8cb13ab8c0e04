"""Tables for notebooks, and figures for people."""

import html
from collections.abc import Iterable, Mapping, Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

_STYLE = "border:1px solid #8888;padding:2px 8px;text-align:left;vertical-align:top"


def human_bytes(count: float) -> str:
    """Return a number of bytes in the largest unit of which there is one."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            return f"{count:.4g} {unit}"
        count /= 1024
    raise AssertionError


def table(title: str, rows: Mapping[str, object]) -> str:
    """Return a table with a name and a value in each row."""
    return records(title, (), rows.items())


def records(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a heading for each column; all text is escaped."""
    lines = [_row("th", columns)] if columns else []
    lines += [_row("td", row) for row in rows]
    return (
        f"<div><b>{html.escape(title)}</b>"
        f"<table style='border-collapse:collapse'>{''.join(lines)}</table></div>"
    )


def _row(tag: str, cells: Sequence[object]) -> str:
    text = "".join(f"<{tag} style='{_STYLE}'>{html.escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr>{text}</tr>"
