"""The functions of panels and tiles under the names that kernels call them by."""

import functools
import itertools
from typing import Any

from xla_server.codegen.compiler.shared_functions import (
    SharedFunction,
    TextFunction,
    with_addresses,
)
from xla_server.codegen.routines.contraction.gemm_loops import GEMM_LOOPS
from xla_server.codegen.routines.contraction.gemm_panels import PANEL, PanelText, across, along
from xla_server.codegen.routines.contraction.gemm_tiles import (
    KINDS,
    TILE,
    GemmTileText,
    TileKind,
    heights,
    widths,
)
from xla_server.target.machine import Machine


def tile_name(kind: TileKind, rows: int, vectors: int, *, packs: bool = False) -> str:
    """Return the name of a tile."""
    return f"gemm_{'packing_' if packs else ''}tile_{kind.name}_{rows}x{vectors}"


def panel_name(kind: TileKind, source: str, height: int, *, is_across: bool) -> str:
    """Return the name of the function that packs a panel of a type, stored across or along."""
    return f"gemm_{'across' if is_across else 'along'}_{kind.name}_{source}_{height}"


def _tile(kind: TileKind, rows: int, vectors: int, *, packs: bool) -> SharedFunction:
    begin = functools.partial(GemmTileText, kind=kind, rows=rows, vectors=vectors, packs=packs)
    routine = TILE.named(tile_name(kind, rows, vectors, packs=packs))
    return TextFunction(routine, GemmTileText.multiply, begin=begin)


def _panel(kind: TileKind, source: str, height: int, *, is_across: bool) -> SharedFunction:
    begin = functools.partial(PanelText, kind=kind, source=source, height=height)
    routine = PANEL.named(panel_name(kind, source, height, is_across=is_across))
    return TextFunction(routine, across if is_across else along, begin=begin)


def gemm_functions(machine: Machine) -> dict[str, Any]:
    """Return the functions of panels, of tiles, of their addresses, and of the loops, by name."""
    found: list[SharedFunction] = []
    for kind in KINDS.values():
        lanes, tall = machine.lanes(kind.width), heights(machine)
        tiles = [(rows, vectors) for rows in tall for vectors in widths(kind, rows)]
        # Pairs are made of two elements each, which tiles do not read from a matrix.
        for packs in (False,) if kind.pairs else (False, True):
            found += [_tile(kind, *tile, packs=packs) for tile in tiles]
        sizes = {*tall, *(vectors * lanes for _, vectors in tiles)}
        for source, is_across in itertools.product(kind.sources, (True, False)):
            found += [_panel(kind, source, height, is_across=is_across) for height in sizes]
    return {**with_addresses(found), **GEMM_LOOPS}
