"""HloModule -> one page of HTML: a drawing and a table of each computation, with links."""

from collections.abc import Iterator
from html import escape as _text

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction, HloModule

LARGEST_DRAWING = 400
"""Instructions of a computation that is drawn; of a larger one there is only the table."""

_WIDTH, _HEIGHT = 190, 44
_ACROSS, _DOWN = 210, 84
_LETTERS = 26
"""Size of a box and distances from one to the next, in pixels; letters that fit into a box."""

_STYLE = """
body { font: 14px sans-serif; margin: 2em }
table { border-collapse: collapse; font: 12px monospace }
td, th { border: 1px solid #ccc; padding: 2px 6px; text-align: left; vertical-align: top }
:target, a:hover rect { background: #fe8; fill: #fe8 }
svg { font: 11px monospace }
rect { fill: #eef; stroke: #669 }
.root rect { stroke-width: 3 }
.parameter rect { fill: #efe }
.fusion rect { fill: #fed }
line { stroke: #888 }
"""


def print_html(module: HloModule) -> str:
    """Return a self-contained page of the module, without scripts and external resources."""
    return "\n".join(_lines(module)) + "\n"


def _lines(module: HloModule) -> Iterator[str]:
    ids = {part: f"i{number}" for number, part in enumerate(module.instructions())}
    anchors = {part: f"c{number}" for number, part in enumerate(module.computations)}
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    # Names come from clients: even markup that got into the page could execute nothing.
    yield (
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    yield f"<title>{_text(module.name)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{_text(module.name)}</h1><p>{_text(str(module.entry_program_shape))}</p>"
    # The entry computation comes first: readers look for it first.
    for computation in reversed(module.computations):
        entry = "ENTRY " if computation is module.entry else ""
        yield f'<h2 id="{anchors[computation]}">{entry}{_text(computation.name)}</h2>'
        if len(computation.instructions) <= LARGEST_DRAWING:
            yield from _drawing(computation, ids)
        yield from _table(computation, ids, anchors)
    yield "</body></html>"


def _table(
    computation: HloComputation,
    ids: dict[HloInstruction, str],
    anchors: dict[HloComputation, str],
) -> Iterator[str]:
    yield "<table><tr><th>instruction<th>shape<th>opcode<th>operands<th>calls</tr>"
    for part in computation.instructions:
        root = "ROOT " if part is computation.root else ""
        operands = ", ".join(_link(ids[operand], operand.name) for operand in part.operands)
        calls = ", ".join(_link(anchors[called], called.name) for called in part.called)
        yield (
            f'<tr id="{ids[part]}"><td>{root}{_text(part.name)}<td>{_text(str(part.shape))}'
            f"<td>{kind_of(part)}<td>{operands}<td>{calls}</tr>"
        )
    yield "</table>"


def _drawing(computation: HloComputation, ids: dict[HloInstruction, str]) -> Iterator[str]:
    cells = _cells(computation)
    width = (max(x for x, _ in cells.values()) + 1) * _ACROSS
    height = (max(y for _, y in cells.values()) + 1) * _DOWN
    yield f'<svg width="{width}" height="{height}">'
    for part, (x, y) in cells.items():
        for operand in part.operands:
            above, row = cells[operand]
            yield (
                f'<line x1="{above * _ACROSS + _WIDTH // 2}" y1="{row * _DOWN + _HEIGHT}" '
                f'x2="{x * _ACROSS + _WIDTH // 2}" y2="{y * _DOWN}"/>'
            )
    for part, (x, y) in cells.items():
        left, top = x * _ACROSS, y * _DOWN
        root = "root " if part is computation.root else ""
        yield (
            f'<a href="#{ids[part]}" class="{root}{part.opcode}"><rect x="{left}" y="{top}" '
            f'width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
            f"<title>{_text(part.name)} = {_text(str(part.shape))} {kind_of(part)}</title>"
            f'<text x="{left + 6}" y="{top + 18}">{_text(_short(part.name))}</text>'
            f'<text x="{left + 6}" y="{top + 35}">'
            f"{_text(_short(f'{part.opcode} {part.shape.without_layout()}'))}</text></a>"
        )
    yield "</svg>"


def _cells(computation: HloComputation) -> dict[HloInstruction, tuple[int, int]]:
    """Column and row of each instruction: below all its operands, and near them."""
    depths: dict[HloInstruction, int] = {}
    rows: list[list[HloInstruction]] = []
    for part in computation.instructions:
        depth = 1 + max((depths[operand] for operand in part.operands), default=-1)
        depths[part] = depth
        if depth == len(rows):
            rows.append([])
        rows[depth].append(part)
    cells: dict[HloInstruction, tuple[int, int]] = {}
    for depth, row in enumerate(rows):

        def wish(part: HloInstruction) -> float:
            columns = [cells[operand][0] for operand in part.operands]
            return sum(columns) / len(columns) if columns else 0

        free = 0
        for part in sorted(row, key=wish):
            free = max(free, round(wish(part)))
            cells[part] = (free, depth)
            free += 1
    return cells


def kind_of(part: HloInstruction) -> str:
    """Return the opcode; for a parameter, with its number."""
    if part.opcode is Opcode.PARAMETER:
        return f"parameter({part.attributes.number})"
    return str(part.opcode)


def _link(target: str, name: str) -> str:
    return f'<a href="#{target}">{_text(name)}</a>'


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
