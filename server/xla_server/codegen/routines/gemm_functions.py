"""The functions of panels and tiles under the names that kernels call them by."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from xla_server.codegen.compiler.shared_functions import SharedFunction, TextFunction
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.routines.assembly_tiles import gemm_along, gemm_tile, has_assembly
from xla_server.codegen.routines.gemm_loops import (
    BAND_OPERANDS,
    LAYOUT_OPERANDS,
    band_by_rows_text,
    band_text,
    layout_text,
)
from xla_server.codegen.routines.gemm_panels import across_text, along_text
from xla_server.codegen.routines.gemm_tiles import KINDS, VECTORS, Kind, heights, tile_text


def tile_name(kind: Kind, rows: int, vectors: int) -> str:
    """What kernels call a tile; `tile_text` says what its operands are."""
    return f"gemm_tile_{kind.name}_{rows}x{vectors}"


def panel_name(kind: Kind, source: str, height: int, *, is_across: bool) -> str:
    """What kernels call the layout of a panel of members of a type, stored across or along.

    `across_text` and `along_text` say what its operands are.
    """
    return f"gemm_{'across' if is_across else 'along'}_{kind.name}_{source}_{height}"


def _glue(name: str, operands: Sequence[str], text: Callable[[str], str]) -> SharedFunction:
    return TextFunction(name, len(operands), text, Effort.GLUE, is_long=True)


def _tile(kind: Kind, rows: int, vectors: int) -> SharedFunction:
    name = tile_name(kind, rows, vectors)
    if has_assembly():
        text = functools.partial(gemm_tile, kind=kind.name, rows=rows, vectors=vectors)
        return TextFunction(name, 9, text, Effort.GLUE)
    text = functools.partial(tile_text, kind=kind, rows=rows, vectors=vectors)
    return TextFunction(name, 9, text)


def _panel(kind: Kind, source: str, height: int, *, is_across: bool) -> SharedFunction:
    name = panel_name(kind, source, height, is_across=is_across)
    # What is laid out in pairs is more than copied.
    if has_assembly() and source == kind.name and not (is_across or kind.pairs):
        text = functools.partial(gemm_along, kind=kind.name, height=height)
        return TextFunction(name, 5, text, Effort.GLUE)
    write = across_text if is_across else along_text
    return TextFunction(name, 5, functools.partial(write, kind=kind, source=source, height=height))


def _functions() -> dict[str, Any]:
    found: list[SharedFunction] = []
    for kind in KINDS.values():
        sizes = range(1, VECTORS + 1)
        for rows, vectors in itertools.product(heights(), sizes):
            found.append(_tile(kind, rows, vectors))
        for source, is_across in itertools.product(kind.sources, (True, False)):
            found += [
                _panel(kind, source, height, is_across=is_across)
                for height in {*heights(), *(vectors * kind.lanes for vectors in sizes)}
            ]
    called = {function.__name__: function for function in found}
    return {
        **called,
        **{f"{name}_address": function.address() for name, function in called.items()},
        "gemm_layout": _glue("gemm_layout", LAYOUT_OPERANDS, layout_text),
        "gemm_band": _glue("gemm_band", BAND_OPERANDS, band_text),
        "gemm_band_by_rows": _glue("gemm_band_by_rows", BAND_OPERANDS, band_by_rows_text),
    }


GEMM_FUNCTIONS = _functions()
"""Every function of panels and tiles, the instructions for their addresses, and the loops."""
