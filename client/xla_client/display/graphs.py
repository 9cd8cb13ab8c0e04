"""The entry computation of a module as a picture for notebooks."""

import html
from collections import Counter
from typing import Any

from xla_client.display.tables import records
from xla_contract.stubs import hlo_pb2
from xla_contract.wire.shape_proto import shape_from_proto

MAX_DRAWN = 80
"""Instructions of the largest computation that is drawn; of others the opcodes are counted."""

_WIDTH, _HEIGHT = 190, 44
_GAP_X, _GAP_Y = 16, 30
"""Size of a box and gaps between boxes, in pixels."""

_STYLES = {"parameter": "#cfe8ff", "constant": "#eeeeee", "root": "#ffe3b3", "": "#ffffff"}


def graph_html(module: hlo_pb2.HloModuleProto, title: str) -> str:
    """Return a drawing of the entry computation, operands above their users, or its opcodes."""
    entry: Any = next(
        part for part in module.computations if part.id == module.entry_computation_id
    )
    if len(entry.instructions) > MAX_DRAWN:
        counts = Counter(each.opcode for each in entry.instructions).most_common()
        return records(title, ("opcode", "instructions"), counts)
    layers = _layers(entry.instructions)
    places = {
        each.id: (column * (_WIDTH + _GAP_X), row * (_HEIGHT + _GAP_Y))
        for row, layer in enumerate(layers)
        for column, each in enumerate(layer)
    }
    edges = [
        _edge(places[operand], places[each.id])
        for each in entry.instructions
        for operand in each.operand_ids
        if operand in places
    ]
    nodes = [
        _node(each, places[each.id], is_root=each.id == entry.root_id)
        for each in entry.instructions
    ]
    width = max(map(len, layers)) * (_WIDTH + _GAP_X)
    height = len(layers) * (_HEIGHT + _GAP_Y)
    return (
        f"<div><b>{html.escape(title)}</b><br>"
        f"<svg width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"font-family='monospace' font-size='11'>{''.join(edges + nodes)}</svg></div>"
    )


def _layers(instructions: Any) -> list[list[Any]]:
    """The instructions by their longest way from an operand that has none; operands come first."""
    depths: dict[int, int] = {}
    layers: list[list[Any]] = []
    for each in instructions:
        depth = 1 + max((depths.get(operand, -1) for operand in each.operand_ids), default=-1)
        depths[each.id] = depth
        layers.extend([] for _ in range(depth + 1 - len(layers)))
        layers[depth].append(each)
    return layers


def _edge(source: tuple[int, int], user: tuple[int, int]) -> str:
    return (
        f"<line x1='{source[0] + _WIDTH // 2}' y1='{source[1] + _HEIGHT}' "
        f"x2='{user[0] + _WIDTH // 2}' y2='{user[1]}' stroke='#888888'/>"
    )


def _node(instruction: Any, place: tuple[int, int], *, is_root: bool) -> str:
    x, y = place
    fill = _STYLES[
        "root" if is_root else instruction.opcode if instruction.opcode in _STYLES else ""
    ]
    shape = str(shape_from_proto(instruction.shape).without_layout())
    lines = (f"%{instruction.name} {instruction.opcode}", shape)
    texts = "".join(
        f"<text x='{x + 6}' y='{y + 17 + 16 * number}' fill='#000000'>{_fitting(line)}</text>"
        for number, line in enumerate(lines)
    )
    return (
        f"<rect x='{x}' y='{y}' width='{_WIDTH}' height='{_HEIGHT}' rx='4' fill='{fill}' "
        f"stroke='#555555'><title>{html.escape(' '.join(lines))}</title></rect>{texts}"
    )


def _fitting(text: str) -> str:
    max_length = 27
    return html.escape(text if len(text) <= max_length else text[: max_length - 1] + "…")
