"""The routines of products, by numpy: panels and tiles."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.example_platform.memory import Arrays
from tests.processors import HOST
from xla_server.codegen.routines.contraction import product_tiles, thin_products
from xla_server.codegen.routines.contraction.gemm_functions import panel_name, tile_name
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS, TileKind, heights, widths
from xla_server.target.machine import Machine

WALKED = (HOST, Machine.avx2(cores=1))
"""Machines whose routines are defined: the host, and that of the example platform."""

_DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i16": np.int16}


def _panel(
    kind: TileKind,
    stored: str,
    height: int,
    is_across: bool,
    arrays: Arrays,
    source: int,
    ahead: int,
    panel: int,
    steps: int,
    width: int,
) -> None:
    """Pack members of a panel step after step; those that are not there are 0."""
    dtype = np.dtype(f"{stored[0]}{int(stored[1:]) // 8}")
    across, along = (width, steps) if is_across else (steps, width)
    size = along * dtype.itemsize
    rows = [arrays.at(source + n * ahead, size).view(dtype) for n in range(across)]
    members = np.zeros((height, -(-steps // 2) * 2 if kind.pairs else steps), _DTYPES[kind.name])
    members[:width, :steps] = np.array(rows) if is_across else np.array(rows).T
    packed = members.reshape(height, -1, 2 if kind.pairs else 1).transpose(1, 0, 2)
    arrays.at(panel, packed.nbytes)[:] = np.ascontiguousarray(packed).ravel().view(np.uint8)


def _tile(
    kind: TileKind,
    height: int,
    packs: bool,
    arrays: Arrays,
    left: int,
    right: int,
    result: int,
    packed: int,
    ahead: int,
    steps: int,
    pitch: int,
    rows: int,
    columns: int,
    adds: int,
) -> None:
    """Multiply two panels; a sum is in the order of the steps."""
    dtype, width = _DTYPES[kind.name], kind.width
    together = width // np.dtype(dtype).itemsize
    lefts = arrays.at(left, steps * height * width).view(dtype)
    lefts = lefts.reshape(steps, height, together)[:, :rows]
    sums = np.zeros((rows, columns), np.int32 if kind.pairs else dtype)
    for k in range(steps):
        read = arrays.at(right + k * ahead, columns * width)
        if packs:
            arrays.at(packed + k * columns * width, columns * width)[:] = read
        rights = read.view(dtype)
        for n in range(together):
            factors = rights.reshape(columns, together)[:, n].astype(sums.dtype)
            sums += lefts[k, :, n].astype(sums.dtype)[:, None] * factors
    for number, row in enumerate(sums):
        _put(arrays, result + number * pitch, row, adds=adds)


def _product_tile(
    kind: str, rows: int, form: product_tiles.TileForm, arrays: Arrays, *operands: int
) -> None:
    """Set rows to sums over nested loops, in the order of the loops."""
    left, right, result, row_step, result_step, columns, *loops = operands
    size = np.dtype(_DTYPES[kind]).itemsize
    widths = [columns] * rows
    right_columns, is_single = columns, form is product_tiles.TileForm.PRODUCT
    if form is product_tiles.TileForm.FILTER:
        right_columns, widths[:-1] = 1, [row_step // size] * (rows - 1)
    sums = [np.zeros(width, _DTYPES[kind]) for width in widths]
    for turn in itertools.product(*map(range, loops[::3])):
        over, down = (sum(map(int.__mul__, turn, loops[n::3])) for n in (1, 2))
        factors = arrays.at(right + down, right_columns * size).view(_DTYPES[kind])
        for number, row in enumerate(sums):
            at, count = left + over + number * row_step, 1 if is_single else row.size
            row += arrays.at(at, count * size).view(row.dtype) * factors
    for number, row in enumerate(sums):
        there = arrays.at(result + number * result_step, row.nbytes)
        there[:] = row.view(np.uint8)


def _thin_inner(kind: str, arrays: Arrays, *operands: int) -> None:
    """Multiply rows of a matrix with vectors."""
    o = dict(zip(thin_products.INNER.names, operands, strict=True))
    size = o["steps"] * np.dtype(_DTYPES[kind]).itemsize
    for n, v in itertools.product(range(o["count"]), range(o["vector_count"])):
        row = arrays.at(o["matrix"] + n * o["ahead"], size).view(_DTYPES[kind])
        vector = arrays.at(o["vectors"] + v * o["vector_ahead"], size).view(_DTYPES[kind])
        result = o["result"] + n * o["row_ahead"] + v * o["result_ahead"]
        _put(arrays, result, np.array([np.dot(row, vector)]), adds=o["adds"])


def _thin_outer(kind: str, arrays: Arrays, *operands: int) -> None:
    """Multiply columns of a matrix with vectors."""
    o = dict(zip(thin_products.OUTER.names, operands, strict=True))
    width = np.dtype(_DTYPES[kind]).itemsize
    for v in range(o["vector_count"]):
        vector, sums = o["vectors"] + v * o["vector_ahead"], np.zeros(o["count"], _DTYPES[kind])
        for n in range(o["steps"]):
            factor = arrays.at(vector + n * o["element_ahead"], width).view(sums.dtype)
            row = arrays.at(o["matrix"] + n * o["ahead"], sums.nbytes).view(sums.dtype)
            sums += factor * row
        _put(arrays, o["result"] + v * o["result_ahead"], sums, adds=o["adds"])


def _put(arrays: Arrays, address: int, sums: np.ndarray[Any, Any], *, adds: int) -> None:
    """Set a row of a result, or add to it."""
    there = arrays.at(address, sums.nbytes).view(sums.dtype)
    there[:] = there + sums if adds else sums


def _tiles(machine: Machine) -> Iterator[tuple[str, Callable[..., Any]]]:
    for kind in KINDS.values():
        lanes, tall = machine.lanes(kind.width), heights(machine)
        tiles = [(rows, vectors) for rows in tall for vectors in widths(kind, rows)]
        panels = {*tall, *(vectors * lanes for _, vectors in tiles)}
        for (rows, vectors), packs in itertools.product(tiles, (False, True)):
            tile = functools.partial(_tile, kind, rows, packs)
            yield tile_name(kind, rows, vectors, packs=packs), tile
        for source, height, is_across in itertools.product(kind.sources, panels, (False, True)):
            pack = functools.partial(_panel, kind, source, height, is_across)
            yield panel_name(kind, source, height, is_across=is_across), pack
    for kind_name, rows, form in itertools.product(
        ("f32", "f64"), range(1, product_tiles.tallest(machine) + 1), product_tiles.TileForm
    ):
        most = product_tiles.VECTORS * product_tiles.lanes(machine, kind_name)
        for columns in range(1, most + 1):
            name = product_tiles.tile_name(machine, kind_name, rows, columns, form)
            yield name, functools.partial(_product_tile, kind_name, rows, form)
    for name in thin_products.thin_products(machine):
        thin = _thin_outer if name.startswith("thin_outer") else _thin_inner
        yield name, functools.partial(thin, name.split("_")[2])


def products() -> dict[str, Callable[..., Any]]:
    """Return every tile and panel of products by its name."""
    return {name: f for machine in WALKED for name, f in _tiles(machine)}
