"""Tiles in assembly do what those in LLVM's language do."""

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from tests.processors import HOST, MACHINES, assembles
from tests.unit.codegen.assembled import assembly_of, code_of, object_of
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import ModuleText
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.routines.contraction import assembly_tiles, product_tiles
from xla_server.codegen.routines.contraction.gemm_panels import SLACK, along_text
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS, tile_text
from xla_server.target.machine import Machine

runs = pytest.mark.skipif(
    not assembly_tiles.has_assembly(HOST), reason="a processor without 32 registers of 64 bytes"
)
RNG = np.random.default_rng(7)
TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i16": np.int16}


def _both(assembly: str, text: str, operands: int) -> list[Any]:
    """The functions `tile` of two modules, each with the loader that keeps it."""
    found = []
    for module, effort in ((assembly, Effort.UNOPTIMISED), (text, Effort.WRITTEN)):
        loader = Loader(HOST)
        address = loader.load(object_of_module(ModuleText(module), HOST, effort), "tile")
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * operands)
        found.append((function(address), loader))
    return found


def _numbers(kind: str, *shape: int) -> Any:
    numbers = RNG.integers(-30000, 30000, shape)
    return (numbers / 1000 if kind[0] == "f" else numbers).astype(TYPES[kind])


@runs
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "vectors"), [(14, 2), (8, 1), (4, 2)])
def test_products_of_panels(kind: str, rows: int, vectors: int) -> None:
    form, steps = KINDS[kind], 5
    per_step = 2 if form.pairs else 1
    columns = vectors * HOST.lanes(form.width)
    left = _numbers(kind, steps, rows * per_step)
    right = _numbers(kind, steps, (columns + 3) * per_step)
    before = _numbers("i32" if form.pairs else kind, rows, columns + 5)
    functions = _both(
        assembly_tiles.gemm_tile("tile", HOST, kind, rows, vectors),
        tile_text("tile", HOST, form, rows, vectors),
        9,
    )
    for there, wide, adds in itertools.product((1, rows), (1, columns - 1, columns), (0, 1)):
        results = []
        for function, _ in functions:
            result = before.copy()
            place = result.ctypes.data
            given = (left.ctypes.data, right.ctypes.data, place, right.strides[0], steps)
            function(*given, result.strides[0], there, wide, adds)
            results.append(result)
        np.testing.assert_array_equal(*results)
        changed = results[0] != before
        assert changed[:there, :wide].any()
        assert not changed[there:].any()
        assert not changed[:, wide:].any()


@runs
@pytest.mark.parametrize("kind", ["f32", "f64", "i32"])
@pytest.mark.parametrize("height", [14, 8, 32])
def test_panels_of_members_side_by_side(kind: str, height: int) -> None:
    height = min(height, 2 * HOST.lanes(KINDS[kind].width))
    source = _numbers(kind, 6, height + 5)
    functions = _both(
        assembly_tiles.gemm_along("tile", HOST, kind, height),
        along_text("tile", HOST, KINDS[kind], kind, height),
        5,
    )
    for steps, there in ((1, 1), (6, height - 1), (5, height)):
        results = []
        for function, _ in functions:
            panel = np.full(8 * height + SLACK, 7, source.dtype)
            function(source.ctypes.data, source.strides[0], panel.ctypes.data, steps, there)
            results.append(panel)
        np.testing.assert_array_equal(*results)
        laid_out = results[0][: steps * height].reshape(steps, height)
        np.testing.assert_array_equal(laid_out[:, :there], source[:steps, :there])
        assert not laid_out[:, there:].any()


@runs
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("rows", "columns", "iterations"),
    [(14, 2, (2, 3, 1, 4)), (9, 1, (1, 1, 1, 7)), (3, 2, (3, 2, 2, 2)), (2, 1, (2, 0, 1, 3))],
)
@pytest.mark.parametrize("missing", [0, 3])
@pytest.mark.parametrize("is_depthwise", [False, True])
def test_sums_of_loops(
    kind: str,
    rows: int,
    columns: int,
    iterations: tuple[int, ...],
    missing: int,
    is_depthwise: bool,
) -> None:
    lanes = product_tiles.lanes(HOST, kind)
    width, there = 64 // lanes, columns * lanes - missing
    left, right = _numbers(kind, 400), _numbers(kind, 4000)
    tile = assembly_tiles.ProductTile(kind, rows, columns, missing > 0, is_depthwise)
    functions = _both(
        assembly_tiles.product_tile("tile", HOST, tile),
        product_tiles.tile_text("tile", HOST, tile),
        18,
    )
    loops = [
        number
        for count, over, down in zip(iterations, (60, 20, 7, 1), (1000, 400, 150, 36), strict=True)
        for number in (count, over * width, down * width)
    ]
    results = []
    for function, _ in functions:
        result = np.full((rows, there + 2), 77, TYPES[kind])
        places = [array.ctypes.data for array in (left, right, result)]
        function(*places, 3 * width, result.strides[0], there, *loops)
        results.append(result)
    np.testing.assert_array_equal(*results)
    assert (results[0][:, there:] == 77).all()
    expected = np.zeros((rows, there))
    for place in itertools.product(*map(range, iterations)):
        at = np.dot(place, (60, 20, 7, 1)) + 3 * np.arange(rows)
        columns_of = np.arange(there)
        on = np.dot(place, (1000, 400, 150, 36)) + columns_of
        # The columns of a depthwise tile lie side by side on the left too.
        at = at[:, None] + columns_of * is_depthwise
        expected += left[at].astype(float) * right[on]
    np.testing.assert_allclose(results[0][:, :there], expected, rtol=1e-4, atol=1e-2)


MULTIPLY = {"f32": "vfmadd231ps", "f64": "vfmadd231pd", "i32": "vpmulld", "i16": "vpmaddwd"}


def _assembles(machine: Machine, text: str, multiplications: dict[str, int]) -> None:
    """Instructions are all known to the assembler, and those that multiply are there."""
    lines = assembly_of(text, machine, Effort.UNOPTIMISED).splitlines()
    for name, count in multiplications.items():
        assert sum(line.strip().startswith(name) for line in lines) == count
    # None of them is shorter.
    assert len(code_of(object_of(text, machine, Effort.UNOPTIMISED))) > 4 * sum(
        multiplications.values()
    )


@assembles
@pytest.mark.parametrize("name", ["avx512", "avx512vnni"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "vectors"), [(14, 2), (8, 1), (4, 2)])
def test_tiles_assemble_on_hosts_that_do_not_run_them(
    name: str, kind: str, rows: int, vectors: int
) -> None:
    multiply = "vpdpwssd" if (name, kind) == ("avx512vnni", "i16") else MULTIPLY[kind]
    machine = MACHINES[name]
    assert assembly_tiles.has_assembly(machine)
    text = assembly_tiles.gemm_tile("tile", machine, kind, rows, vectors)
    _assembles(machine, text, {multiply: rows * vectors})


@assembles
@pytest.mark.parametrize("kind", ["f32", "f64", "i32"])
def test_panels_assemble_on_hosts_that_do_not_run_them(kind: str) -> None:
    machine = MACHINES["avx512"]
    for height in (14, 8):
        text = assembly_tiles.gemm_along("tile", machine, kind, height)
        _assembles(machine, text, {"vfmadd": 0})


@assembles
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("is_partial", [False, True])
@pytest.mark.parametrize("is_depthwise", [False, True])
def test_tiles_of_loops_assemble_on_hosts_that_do_not_run_them(
    kind: str, is_partial: bool, is_depthwise: bool
) -> None:
    machine = MACHINES["avx512"]
    for rows, vectors in itertools.product((1, 7, 8, 14), (1, 2)):
        tile = assembly_tiles.ProductTile(kind, rows, vectors, is_partial, is_depthwise)
        text = assembly_tiles.product_tile("tile", machine, tile)
        _assembles(machine, text, {MULTIPLY[kind]: rows * vectors})


def test_processors_without_the_instructions_have_no_assembly() -> None:
    for name, has in (("sse2", False), ("avx2", False), ("avx512", True)):
        assert assembly_tiles.has_assembly(MACHINES[name]) == has
