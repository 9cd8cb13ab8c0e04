"""The routines of products, by numpy: panels, tiles, the loops around them, and transforms."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tests.example_platform.memory import Arrays
from tests.processors import HOST
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.routines.contraction import product_tiles, thin_products
from xla_server.codegen.routines.contraction.gemm_functions import panel_name, tile_name
from xla_server.codegen.routines.contraction.gemm_loops import BAND, BAND_BY_ROWS, LAYOUT
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS, TileKind, heights, widths
from xla_server.target.machine import Machine

WALKED = (HOST, Machine.avx2(cores=1))
"""Machines whose routines are defined: the host, and that of the example platform."""

Execute = Callable[..., Any]
At = Callable[[int], Callable[..., Any]]
"""Returns the routine with an address."""

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
    room: int,
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
            arrays.at(room + k * columns * width, columns * width)[:] = read
        rights = read.view(dtype)
        for n in range(together):
            factors = rights.reshape(columns, together)[:, n].astype(sums.dtype)
            sums += lefts[k, :, n].astype(sums.dtype)[:, None] * factors
    for number, row in enumerate(sums):
        _put(arrays, result + number * pitch, row, adds=adds)


def _layout(at: At, arrays: Arrays, *operands: int) -> None:
    o = dict(zip(LAYOUT.names, operands, strict=True))
    for item in range(o["start"], o["stop"]):
        matrix, group = divmod(item, o["groups"])
        source = o["source"] + matrix * o["matrix_ahead"] + group * o["group_ahead"]
        target = o["target"] + matrix * o["matrix_bytes"] + group * o["group_bytes"]
        there = min(o["members"] - group * o["group"], o["group"])
        for step, (number, panel) in itertools.product(
            range(0, o["depth"], o["run"]), enumerate(range(0, there, o["height"]))
        ):
            at(o["lay_out"])(
                arrays,
                source + step * o["step_ahead"] + number * o["panel_ahead"],
                o["ahead"],
                target + step * o["step_bytes"] + number * o["panel_bytes"],
                min(o["depth"] - step, o["run"]),
                min(there - panel, o["height"]),
            )


def _band(at: At, arrays: Arrays, *operands: int) -> None:
    o = dict(zip(BAND.names, operands, strict=True))
    for item in range(o["start"], o["stop"]):
        rest, block = divmod(item, o["across"])
        batch, band = divmod(rest, o["down"])
        row, column = band * o["band_rows"], block * o["block_columns"]
        left = o["left"] + batch * o["left_batch_ahead"] + row * o["member_ahead"]
        right = o["right"] + batch * o["right_batch_ahead"] + block * o["block_ahead"]
        result = o["result"] + (batch * o["rows"] + row) * o["pitch"] + column * o["width"]
        rows, columns = min(o["rows"] - row, o["band_rows"]), o["columns"] - column
        sizes = rows, min(columns, o["block_columns"])
        for step in range(0, o["depth"], o["run"]):
            starts = left + step * o["step_ahead"], right + step * o["right_step_ahead"], result
            _multiply(at, arrays, o, step, sizes, starts)


def _multiply(
    at: At,
    arrays: Arrays,
    o: Mapping[str, int],
    step: int,
    sizes: tuple[int, int],
    starts: tuple[int, int, int],
) -> None:
    """Multiply a band of rows and a block of columns over a run of steps."""
    (rows, columns), (left, right, result) = sizes, starts
    steps = min(o["depth"] - step, o["run"])
    bands = [o["band"] + n * o["band_panel_bytes"] for n in range(-(-rows // o["height"]))]
    for n, panel in enumerate(bands):
        source = left + n * o["height"] * o["member_ahead"]
        there = min(rows - n * o["height"], o["height"])
        at(o["lay_out_left"])(arrays, source, o["left_ahead"], panel, steps, there)
    for number, first in enumerate(range(0, columns, o["panel_columns"])):
        factors, ahead = right + number * o["panel_ahead"], o["right_ahead"]
        width = min(columns - first, o["panel_columns"])
        tile = o["first_tile"]
        if columns - first < o["narrow"]:
            at(o["lay_out_right"])(arrays, factors, ahead, o["room"], steps, width)
            factors, ahead, tile = o["room"], o["laid_out_ahead"], o["tile"]
        for n, panel in enumerate(bands):
            height = min(rows - n * o["height"], o["height"])
            into = result + first * o["width"] + n * o["height"] * o["pitch"]
            of_tile = (ahead, -(-steps // o["per_step"]), o["pitch"], height, width, int(step > 0))
            at(tile)(arrays, panel, factors, into, o["room"], *of_tile)
            if tile != o["tile"]:
                factors, ahead, tile = o["room"], o["laid_out_ahead"], o["tile"]


def _product_tile(kind: str, rows: int, is_depthwise: bool, arrays: Arrays, *operands: int) -> None:
    """Set rows to sums over nested loops, in the order of the loops."""
    left, right, result, row_step, result_step, columns, *loops = operands
    size = np.dtype(_DTYPES[kind]).itemsize
    sums = np.zeros((rows, columns), _DTYPES[kind])
    for turn in itertools.product(*map(range, loops[::3])):
        over, down = (sum(map(int.__mul__, turn, loops[n::3])) for n in (1, 2))
        factors = arrays.at(right + down, columns * size).view(sums.dtype)
        for number in range(rows):
            at, count = left + over + number * row_step, columns if is_depthwise else 1
            sums[number] += arrays.at(at, count * size).view(sums.dtype) * factors
    for number, row in enumerate(sums):
        there = arrays.at(result + number * result_step, columns * size)
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
        vector, sums = o["vectors"] + v * o["vector_ahead"], np.zeros(o["columns"], _DTYPES[kind])
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
    for kind_name, rows, is_depthwise in itertools.product(
        ("f32", "f64"), range(1, product_tiles.tallest(machine) + 1), (False, True)
    ):
        most = product_tiles.VECTORS * product_tiles.lanes(machine, kind_name)
        for columns in range(1, most + 1):
            name = product_tiles.tile_name(
                machine, kind_name, rows, columns, is_depthwise=is_depthwise
            )
            yield name, functools.partial(_product_tile, kind_name, rows, is_depthwise)
    for name in thin_products.thin_products(machine):
        thin = _thin_outer if name.startswith("thin_outer") else _thin_inner
        yield name, functools.partial(thin, name.split("_")[2])


def products(at: At) -> dict[str, Callable[..., Any]]:
    """Return every routine of products by its name, where `at` returns that at an address."""
    loops: tuple[tuple[Routine, Callable[..., Any]], ...]
    loops = ((LAYOUT, _layout), (BAND, _band), (BAND_BY_ROWS, _band))
    tiles = {name: f for machine in WALKED for name, f in _tiles(machine)}
    return {**tiles, **{each.name: functools.partial(f, at) for each, f in loops}}
