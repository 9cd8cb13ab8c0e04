"""Tiles in LLVM's language, for processors of either width."""

import ctypes
import itertools
import re

import numpy as np
import pytest

from tests.processors import HOST, MACHINES, WIDTHS, assembles, runs
from tests.unit.codegen.assembled import assembly_of, loop_of, object_of
from xla_server.codegen.compiler.llvm_text import Declaration
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.routines.contraction import gemm_tiles, product_tiles
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS, has_pairs, heights, widths
from xla_server.codegen.routines.contraction.product_tiles import TileForm
from xla_server.target.machine import Machine

pytestmark = assembles
REGISTERS = {32: "ymm", 64: "zmm"}
"""Vector registers in assembly by their bytes."""
PRODUCT = {"f32": "vfmadd", "f64": "vfmadd", "i32": "vpmulld", "i16": "vpmaddwd"}
ON_STACK = r"\(%r[sb]p"


def gemm_tile(
    machine: Machine, kind: gemm_tiles.TileKind, rows: int, vectors: int, *, packs: bool
) -> str:
    declared = Declaration("tile", gemm_tiles.TILE.names, machine)
    return multiplying(gemm_tiles.GemmTileText(declared, kind, rows, vectors, packs=packs))


def product_tile(machine: Machine, tile: product_tiles.ProductTile) -> str:
    declared = Declaration("tile", product_tiles.TILE.names, machine)
    return multiplying(product_tiles.ProductTileText(declared, tile))


def multiplying(tile: gemm_tiles.GemmTileText | product_tiles.ProductTileText) -> str:
    tile.multiply()
    return tile.text()


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_the_tallest_tiles_stay_in_registers(
    machine: Machine, kind: str, packs: bool
) -> None:
    form = KINDS[kind]
    tallest = {n: rows for rows in heights(machine)[::-1] for n in widths(form, rows)}
    assert max(tallest) == (3 if kind in ("f32", "f64") else 2)
    for vectors, rows in tallest.items():
        assembly = assembly_of(gemm_tile(machine, form, rows, vectors, packs=packs), machine)
        loop = loop_of(assembly, PRODUCT[kind])
        products = [line for line in loop if line.startswith(PRODUCT[kind])]
        assert len(products) == rows * vectors
        assert all(REGISTERS[machine.vector_bytes] in line for line in products)
        # A sum that is kept in memory may be reached by another pointer than the stack's.
        stores = [line for line in loop if re.match(r"vmov\w+\s+%\w+, .*\(", line)]
        assert len(stores) == packs * vectors
        assert not [line for line in loop if re.search(ON_STACK, line)]
        lines = -(-vectors * machine.vector_bytes // 64)
        assert sum("prefetch" in line for line in loop) == lines
        assert machine.vector_bytes == 64 or "zmm" not in assembly


@pytest.mark.parametrize("form", TileForm)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_sums_of_the_tallest_tile_of_loops_stay_in_registers(
    machine: Machine, kind: str, form: TileForm
) -> None:
    rows = product_tiles.tallest(machine)
    vectors = 1 if form is TileForm.FILTER else product_tiles.VECTORS
    tile = product_tiles.ProductTile(kind, rows, vectors, form is not TileForm.PRODUCT, form)
    assembly = assembly_of(product_tile(machine, tile), machine, Effort.WRITTEN)
    products = [line for line in loop_of(assembly, PRODUCT[kind]) if PRODUCT[kind] in line]
    assert len(products) == rows * vectors
    assert all(REGISTERS[machine.vector_bytes] in line for line in products)
    # Each is stored once, in the result.
    assert len(re.findall(r"\tvm\w+\t%[yz]mm.*\(.*\)", assembly)) == rows * vectors


@pytest.mark.parametrize("name", ["sse2", *WIDTHS])
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_of_every_height_multiply(name: str, kind: str) -> None:
    """For narrower processors on wider ones, too, which run all that those run."""
    machine = MACHINES[name]
    assert has_pairs(machine) == (name in WIDTHS)
    if not runs(machine):
        pytest.skip("the host does not run it; its assembly is looked at above")
    _check_tiles(machine, kind)


def _check_tiles(machine: Machine, kind: str) -> None:
    form, steps, random = KINDS[kind], 7, np.random.default_rng(3)
    per_step = 2 if form.pairs else 1
    source, total = {
        "f32": (np.float32, np.float32),
        "f64": (np.float64, np.float64),
        "i32": (np.int32, np.int32),
        "i16": (np.int16, np.int32),
    }[kind]
    for rows in heights(machine):
        for vectors, packs in itertools.product(widths(form, rows), (False, True)):
            columns = vectors * machine.lanes(form.width)
            left = random.integers(-99, 99, (steps, rows, per_step)).astype(source)
            right = random.integers(-99, 99, (steps, columns, per_step)).astype(source)
            result = np.ones((rows, columns + 1), total)
            loader = Loader(machine)
            code = object_of(gemm_tile(machine, form, rows, vectors, packs=packs), machine)
            call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 10)(loader.load(code, "tile"))
            workspace = np.zeros_like(right)
            addresses = [array.ctypes.data for array in (left, right, result, workspace)]
            call(*addresses, right.strides[0], steps, result.strides[0], rows - 1, columns - 1, 1)
            wanted = np.ones_like(result)
            products = np.einsum("srp,scp->rc", left.astype(float), right.astype(float))
            wanted[:-1, : columns - 1] += products[:-1, :-1].astype(total)
            np.testing.assert_array_equal(result, wanted)
            np.testing.assert_array_equal(workspace, right * packs)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("rows", "vectors", "iterations"),
    [(6, 2, (2, 3, 1, 4)), (5, 1, (1, 1, 1, 7)), (3, 2, (3, 2, 2, 2)), (2, 1, (2, 0, 1, 3))],
)
@pytest.mark.parametrize("missing", [0, 3])
@pytest.mark.parametrize("form", [TileForm.PRODUCT, TileForm.DEPTHWISE])
def test_sums_of_loops(
    kind: str,
    rows: int,
    vectors: int,
    iterations: tuple[int, ...],
    missing: int,
    form: TileForm,
) -> None:
    random, dtype = np.random.default_rng(7), np.dtype(kind.replace("f", "float"))
    width, there = dtype.itemsize, vectors * product_tiles.lanes(HOST, kind) - missing
    left, right = (random.standard_normal(size).astype(dtype) for size in (400, 4000))
    is_depthwise = form is TileForm.DEPTHWISE
    tile = product_tiles.ProductTile(kind, rows, vectors, missing > 0 or is_depthwise, form)
    loops = [
        number
        for count, over, down in zip(iterations, (60, 20, 7, 1), (1000, 400, 150, 36), strict=True)
        for number in (count, over * width, down * width)
    ]
    result = np.full((rows, there + 2), 77, dtype)
    loader = Loader(HOST)
    code = object_of(product_tile(HOST, tile), HOST, Effort.WRITTEN)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 18)(loader.load(code, "tile"))
    addresses = [array.ctypes.data for array in (left, right, result)]
    call(*addresses, 3 * width, result.strides[0], there, *loops)
    columns = np.arange(there)
    wanted = np.full_like(result, 77, np.float64)
    wanted[:, :there] = 0
    for index in itertools.product(*map(range, iterations)):
        at = np.dot(index, (60, 20, 7, 1)) + 3 * np.arange(rows)[:, None] + columns * is_depthwise
        on = np.dot(index, (1000, 400, 150, 36)) + columns
        wanted[:, :there] += left[at].astype(float) * right[on]
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("rows", "missing"), [(1, 0), (1, 5), (3, 1)])
def test_sums_of_positions_of_one_feature(kind: str, rows: int, missing: int) -> None:
    dtype = np.dtype(kind.replace("f", "float"))
    lanes, width, taps = product_tiles.lanes(HOST, kind), dtype.itemsize, (2, 5)
    count = rows * lanes - missing
    random = np.random.default_rng(7)
    left, right = (random.standard_normal(size).astype(dtype) for size in (count + 54, 13))
    tile = product_tiles.ProductTile(kind, rows, 1, True, TileForm.FILTER)
    loader = Loader(HOST)
    code = object_of(product_tile(HOST, tile), HOST, Effort.WRITTEN)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 18)(loader.load(code, "tile"))
    result = np.full(count + 1, 77, dtype)
    # The last elements of the input are the last that are read.
    loops = 1, 0, 0, 1, 0, 0, taps[0], 50 * width, 8 * width, taps[1], width, width
    addresses = [array.ctypes.data for array in (left, right, result)]
    call(*addresses, lanes * width, lanes * width, lanes - missing, *loops)
    wanted = np.zeros(count)
    for outer, tap in itertools.product(*map(range, taps)):
        at = 50 * outer + tap
        wanted += left[at : at + count].astype(float) * right[8 * outer + tap]
    np.testing.assert_allclose(result[:-1], wanted, rtol=1e-4, atol=1e-4)
    assert result[-1] == 77
