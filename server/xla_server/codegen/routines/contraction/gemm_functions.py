"""The functions of panels and tiles under the names that kernels call them by."""

import functools
import itertools
from typing import Any

from xla_server.codegen.compiler.shared_functions import SharedFunction, TextFunction
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.routines.contraction.gemm_loops import (
    BAND,
    BAND_BY_ROWS,
    LAYOUT,
    band_by_rows_text,
    band_text,
    layout_text,
)
from xla_server.codegen.routines.contraction.gemm_panels import PANEL, across_text, along_text
from xla_server.codegen.routines.contraction.gemm_tiles import (
    KINDS,
    TILE,
    TileKind,
    heights,
    tile_text,
    widths,
)
from xla_server.target.machine import Machine


def tile_name(kind: TileKind, rows: int, vectors: int, *, packs: bool = False) -> str:
    """Return the name of a tile."""
    return f"gemm_{'packing_' if packs else ''}tile_{kind.name}_{rows}x{vectors}"


def panel_name(kind: TileKind, source: str, height: int, *, is_across: bool) -> str:
    """Return the name of the function that packs a panel of a type, stored across or along."""
    return f"gemm_{'across' if is_across else 'along'}_{kind.name}_{source}_{height}"


def _tile(
    machine: Machine, kind: TileKind, rows: int, vectors: int, *, packs: bool
) -> SharedFunction:
    routine = TILE.named(tile_name(kind, rows, vectors, packs=packs))
    text = functools.partial(tile_text, machine=machine, kind=kind, rows=rows, vectors=vectors)
    return TextFunction(routine, functools.partial(text, packs=packs))


def _panel(
    machine: Machine, kind: TileKind, source: str, height: int, *, is_across: bool
) -> SharedFunction:
    routine = PANEL.named(panel_name(kind, source, height, is_across=is_across))
    write = across_text if is_across else along_text
    text = functools.partial(write, machine=machine, kind=kind, source=source, height=height)
    return TextFunction(routine, text)


def gemm_functions(machine: Machine) -> dict[str, Any]:
    """Return the functions of panels, of tiles, of their addresses, and of the loops, by name."""
    found: list[SharedFunction] = []
    for kind in KINDS.values():
        lanes, tall = machine.lanes(kind.width), heights(machine)
        tiles = [(rows, vectors) for rows in tall for vectors in widths(kind, rows)]
        # Pairs are made of two elements each, which tiles do not read from a matrix.
        for packs in (False,) if kind.pairs else (False, True):
            found += [_tile(machine, kind, *tile, packs=packs) for tile in tiles]
        sizes = {*tall, *(vectors * lanes for _, vectors in tiles)}
        for source, is_across in itertools.product(kind.sources, (True, False)):
            found += [
                _panel(machine, kind, source, height, is_across=is_across) for height in sizes
            ]
    called = {function.__name__: function for function in found}
    return {
        **called,
        **{f"{name}_address": function.address() for name, function in called.items()},
        LAYOUT.name: TextFunction(LAYOUT, layout_text, Effort.UNOPTIMISED),
        BAND.name: TextFunction(BAND, band_text, Effort.UNOPTIMISED),
        BAND_BY_ROWS.name: TextFunction(BAND_BY_ROWS, band_by_rows_text, Effort.UNOPTIMISED),
    }
