"""Products of matrices by panels and tiles."""

import ctypes
import dataclasses
import itertools
import math
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.processors import HOST
from tests.unit.codegen.compiled import imported, on_cpu
from xla_server.backends.compiled.compilation import compile_module
from xla_server.backends.compiled.cpu import Cpu
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.lower.contraction.gemm import Gemm, GemmOperand
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.routines.contraction.gemm_tiles import KINDS, heights
from xla_server.execution.cancellation import Cancellation
from xla_server.target.machine import Machine
from xla_server.target.target import Target
from xla_server.target.tuning import tuning_of

_RANDOM = np.random.default_rng(5)


def _drawn(dtype: Any, *sizes: int) -> Any:
    if np.issubdtype(dtype, np.floating):
        return _RANDOM.standard_normal(sizes).astype(dtype)
    limits = np.iinfo(dtype)
    return _RANDOM.integers(limits.min, limits.max, sizes, dtype, endpoint=True)


def _gemm(
    machine: Machine, rows: int, columns: int, depth: int, batch: int = 1, kind: str = "f32"
) -> Gemm:
    source = "i8" if kind == "i16" else kind
    side = GemmOperand(source, True), GemmOperand(source, False)
    return Gemm(Target.of(machine), KINDS[kind], *side, batch, rows, columns, depth)


TYPES = {
    "f32": (np.float32, np.float32),
    "f64": (np.float64, np.float64),
    "s8": (np.int8, np.int8),
    "s16": (np.int16, np.int16),
    "u8 by s16": (np.uint8, np.int16),
    "s32": (np.int32, np.int32),
    "u32": (np.uint32, np.uint32),
}
SIZES = {
    "smaller than a tile": (2, 3, 30, 5),
    "an odd depth of several runs": (1, 50, 70, 1537),
    "of one vector": (1, 90, 10, 33),
    "of one vector, ahead": (1, 700, 16, 400),
    "laid out ahead": (1, 150, 140, 131),
    "laid out by work_items": (2, 60, 100, 40),
    "divided by columns": (1, 70, 700, 150),
    "read in place": (1, 3, 515, 300),
    "read in place, in several runs": (1, 20, 23, 2500),
    "packed by tiles": (1, 50, 515, 300),
    "laid out for a large result": (2, 300, 301, 3),
    "parts of sums": (2, 20, 25, 4999),
}


OF_ALL_TYPES = ("an odd depth of several runs", "laid out ahead", "parts of sums")


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [(kind, sizes) for kind in TYPES for sizes in (SIZES if kind == "f32" else OF_ALL_TYPES)],
)
def test_products_of_matrices_that_lie_either_way(kind: str, sizes: str) -> None:
    batch, rows, columns, depth = SIZES[sizes]
    left, right = (
        _drawn(dtype, *shape)
        for dtype, shape in zip(
            TYPES[kind], ((batch, rows, depth), (batch, depth, columns)), strict=True
        )
    )
    is_whole = left.dtype.kind in "iu"
    wanted_type = np.dtype(np.int32) if is_whole and kind != "u32" else left.dtype

    def products(*operands: Any) -> Any:
        a, a_turned, b, b_turned = operands
        found = []
        for (x, at_x), (y, at_y) in itertools.product(
            [(a, 2), (a_turned, 1)], [(b, 1), (b_turned, 2)]
        ):
            numbers = (((at_x,), (at_y,)), ((0,), (0,)))
            found.append(lax.dot_general(x, y, numbers, preferred_element_type=wanted_type))
        return found

    arguments = [left, left.swapaxes(1, 2).copy(), right, right.swapaxes(1, 2).copy()]
    if kind == "f64":
        with jax.enable_x64(True):
            module = imported(lower(products, *arguments))
    else:
        module = imported(lower(products, *arguments))
    texts = [row.source for row in kernels_of(compile_module(module).code)]
    assert sum("gemm_band" in text for text in texts) >= 2
    assert any("join_" in text for text in texts) == (sizes == "parts of sums")
    # Rows of few vectors are read without packing them.
    assert sum("gemm_band" in text or "thin_inner" in text for text in texts) == 4
    wide = np.int64 if is_whole else np.float64
    wanted = left.astype(wide) @ right.astype(wide)
    for found in on_cpu(module, arguments):
        if is_whole:
            np.testing.assert_array_equal(found, wanted.astype(wanted_type))
        else:
            bound = 8 * np.finfo(left.dtype).eps * depth**0.5 * 4
            np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize(("contracted", "by_tiles"), [(0, True), (1, False)])
def test_few_columns_of_integers_are_tiles_where_a_loop_would_read_with_strides(
    contracted: int, by_tiles: bool
) -> None:
    left, right = _drawn(np.int8, 40, 50), _drawn(np.int8, (40, 50)[contracted], 3)

    def product(a: Any, b: Any) -> Any:
        numbers = (((contracted,), (0,)), ((), ()))
        return lax.dot_general(a, b, numbers, preferred_element_type=np.int32)

    module = imported(lower(product, left, right))
    texts = [row.source for row in kernels_of(compile_module(module).code)]
    assert any("gemm_band" in text for text in texts) is by_tiles
    wide = left.astype(np.int32)
    wanted = (wide if contracted else wide.T) @ right.astype(np.int32)
    np.testing.assert_array_equal(on_cpu(module, [left, right])[0], wanted)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("columns", [512, 555])
def test_short_sums_are_written_row_by_row(columns: int, kind: Any) -> None:
    left, right = _drawn(kind, 205, 40), _drawn(kind, 40, columns)
    wanted_type = np.int32 if kind is np.int8 else kind

    def product(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, preferred_element_type=wanted_type)

    with jax.enable_x64(kind is np.float64):
        module = imported(lower(product, left, right))
    texts = [row.source for row in kernels_of(compile_module(module).code)]
    assert any("gemm_band_by_rows" in text for text in texts)
    wide = np.int64 if kind is np.int8 else np.float64
    wanted = left.astype(wide) @ right.astype(wide)
    np.testing.assert_allclose(on_cpu(module, [left, right])[0], wanted, rtol=0, atol=1e-4)


def test_shallow_products_whose_results_leave_the_cache_are_written_row_by_row(
    machine: Machine,
) -> None:
    for sizes in ((1000, 1000, 3), (300, 700, 2), (20_000, 50, 20)):
        assert all(_gemm(machine, *sizes, batch).is_by_rows for batch in (1, 3))
    # Results that stay in the cache, right operands that are no small part of the time, or of
    # memory.
    for sizes, batch in (((200, 300, 3), 3), ((500, 500, 100), 3), ((1000, 1000, 3), 1 << 16)):
        assert not _gemm(machine, *sizes, batch).is_by_rows


def test_long_sums_are_written_panel_by_panel() -> None:
    left, right = _drawn(np.float32, 100, 200), _drawn(np.float32, 200, 300)
    module = imported(lower(jnp.matmul, left, right))
    texts = [row.source for row in kernels_of(compile_module(module).code)]
    assert any("gemm_band(" in text for text in texts)
    np.testing.assert_allclose(on_cpu(module, [left, right])[0], left @ right, atol=1e-3)


def test_what_is_not_finite_stays_in_its_row_and_column() -> None:
    left, right = _drawn(np.float32, 45, 70), _drawn(np.float32, 70, 65)
    left[44, 3], right[5, 64] = np.nan, np.inf
    module = imported(lower(jnp.matmul, left, right))
    (found,) = on_cpu(module, [left, right])
    assert np.isnan(found[44]).all()
    assert not np.isfinite(found[:, 64]).any()
    assert np.isfinite(found[:44, :64]).all()


@pytest.mark.parametrize("position", range(3))
def test_every_height_of_tiles(position: int) -> None:
    height = heights(HOST)[position]
    rows = next(n for n in range(2, 99) if _gemm(HOST, n, 40, 9).height == height)
    left, right = _drawn(np.float32, rows, 9), _drawn(np.float32, 9, 40)
    module = imported(lower(jnp.matmul, left, right))
    np.testing.assert_allclose(on_cpu(module, [left, right])[0], left @ right, atol=1e-5)


@pytest.mark.parametrize("sizes", [(190, 700, 210), (9, 20001, 11)])
def test_the_same_bits_on_any_number_of_threads(sizes: tuple[int, int, int]) -> None:
    left, right = _drawn(np.float32, *sizes[:2]), _drawn(np.float32, *sizes[1:])
    module = imported(lower(jnp.matmul, left, right))
    assert_equal_bits(*(on_cpu(module, [left, right], Cpu(threads=n))[0] for n in (1, 3)))


@pytest.mark.parametrize(
    "sizes",
    [
        (512, 512, 512),
        (16, 512, 256),
        (128, 64, 512),
        (8192, 32, 64),
        (2, 9, 3),
        (4000, 4000, 4000),
    ],
)
def test_work_items_cover_the_product_with_bands_that_stay_in_the_cache(
    machine: Machine, sizes: tuple[int, int, int]
) -> None:
    for kind in KINDS:
        gemm = _gemm(machine, *sizes, kind=kind)
        tiles, panels = gemm.division
        _, down, across = gemm.work_items
        assert (down - 1) * tiles < gemm.tiles <= down * tiles
        assert (across - 1) * panels < gemm.panels <= across * panels
        if gemm.tiles > gemm.tuning.max_unpacked_tiles:
            assert (
                tiles == 1
                or tiles * gemm.panel_bytes(gemm.height, gemm.run) <= gemm.tuning.block_bytes
            )
        of_item = tiles * gemm.height * panels * gemm.panel_columns * gemm.depth
        assert of_item <= 2 * gemm.tuning.max_item_products


def test_results_of_a_band_of_short_sums_stay_in_the_cache(machine: Machine) -> None:
    shallow, deep = _gemm(machine, 100_000, 96, 16), _gemm(machine, 100_000, 96, 1024)
    row = shallow.height * 96 * 4
    assert shallow.division[0] * row <= shallow.tuning.block_bytes
    # For wide rows there are still enough for the right matrix to be read seldom.
    wide = _gemm(machine, 10_000, 100_000, 16)
    assert 9 * wide.division[0] * wide.panel_bytes(wide.height, wide.run) >= wide.tuning.block_bytes
    assert deep.division[0] * deep.panel_bytes(deep.height, deep.run) <= deep.tuning.block_bytes


@pytest.mark.parametrize("cores", [1, 2, 16, 128])
@pytest.mark.parametrize("rows", [512, 520, 600, 1000, 8192])
def test_threads_that_take_work_items_in_turn_have_about_as_much_to_do(
    machine: Machine, rows: int, cores: int
) -> None:
    gemm = _gemm(dataclasses.replace(machine, cores=cores), rows, 4096, 512)
    tiles, _ = gemm.division
    _, down, across = gemm.work_items
    items = [min(tiles, gemm.tiles - n * tiles) for n in range(down) for _ in range(across)]
    assert len(items) >= cores
    busiest = max(sum(items[thread::cores]) for thread in range(cores))
    # One tile more than an even share is what whole tiles may cost.
    assert busiest <= 1.1 * across * gemm.tiles / cores + tiles


def test_machines_of_more_cores_divide_products_further() -> None:
    def items(cores: int, *sizes: int) -> int:
        return math.prod(_gemm(Machine.avx2(cores=cores), *sizes).work_items)

    sizes = 1024, 1024, 512
    assert items(2, *sizes) < items(16, *sizes) < items(128, *sizes)
    # Small ones are not worth it.
    assert items(2, 64, 64, 64) == items(128, 64, 64, 64) == 1


def test_deep_sums_with_few_results_are_divided_by_shape_alone() -> None:
    def parts(cores: int, *sizes: int) -> int:
        gemm = _gemm(Machine.avx512(cores=cores), *sizes)
        assert (gemm.parts.count - 1) * gemm.parts.depth < gemm.depth
        assert gemm.depth <= gemm.parts.count * gemm.parts.depth
        assert gemm.work_items[0] == gemm.results == gemm.batch * gemm.parts.count
        return gemm.parts.count

    for sizes in ((16, 8, 100_000), (50, 50, 10_000, 2), (5, 7, 2_000_003)):
        assert parts(1, *sizes) == parts(128, *sizes) >= 4
    # Few k indices; little work; results that have work items enough.
    for sizes in ((128, 128, 3000), (2, 9, 5000), (600, 600, 100_000)):
        assert parts(2, *sizes) == 1


@pytest.mark.parametrize("is_by_rows", [True, False])
def test_an_epilogue_follows_parts_of_sums(is_by_rows: bool) -> None:
    left, right = _drawn(np.float32, 20, 5000) / 99, _drawn(np.float32, 5000, 30)

    def weights(x: Any, w: Any) -> Any:
        return jax.nn.softmax(x @ w) if is_by_rows else jnp.tanh(x @ w) + 1

    module = imported(lower(weights, left, right))
    (found,) = on_cpu(module, [left, right])
    np.testing.assert_allclose(found, weights(left, right), rtol=1e-3, atol=1e-5)


def test_few_rows_of_many_columns_are_divided_by_columns(machine: Machine) -> None:
    repacking = tuning_of(machine).products.max_repacking_blocks
    for rows in (33, 64, 128):
        _, down, across = _gemm(machine, rows, 8192, 1024).work_items
        assert down <= repacking < across
    _, down, across = _gemm(machine, 512, 512, 512).work_items
    assert down > across
    kept = dataclasses.replace(_gemm(machine, 64, 8192, 1024), whole_rows=True)
    assert kept.work_items[1] > repacking


def test_rows_are_kept_whole_where_they_are_needed_whole(machine: Machine) -> None:
    gemm = dataclasses.replace(_gemm(machine, 16, 4096, 512), whole_rows=True)
    assert gemm.division[1] == gemm.panels
    assert _gemm(machine, 16, 4096, 512).division[1] < gemm.panels


HEIGHTS = {32: (6, 4, 2), 64: (14, 8, 4)}
"""Heights of tiles by bytes of a vector."""


def test_how_the_right_matrix_is_read(machine: Machine) -> None:
    assert heights(machine) == HEIGHTS[machine.vector_bytes]
    tuned, height = tuning_of(machine).products, heights(machine)[0]
    most = tuned.max_rereading_tiles * height
    few, packed = (_gemm(machine, rows, 1024, 256) for rows in (most, most + height))
    wide = _gemm(machine, (tuned.max_unpacked_tiles + 1) * height, 8192, 1024)
    many = _gemm(machine, 512, 512, 512)
    # Pairs of bytes are to become pairs of wider numbers, where they are needed.
    pairs = _gemm(machine, most, 512, 4096, kind="i16")
    for gemm, ways in (
        (few, (True, False, False)),
        (packed, (True, True, False)),
        (wide, (True, True, False)),
        (many, (False, False, True)),
        (pairs, (False, False, False)),
    ):
        found = gemm.is_read_by_tiles, gemm.is_packed_by_tiles, gemm.is_prepacked
        assert found == ways
        assert gemm.over == (1 if ways == (True, False, False) else gemm.depth)
    # Vectors of the last panel reach into the next rows of the matrix.
    few = _gemm(machine, height, 3, 4096)
    assert few.over == -(-few.panel_columns // 3) > 1
    assert _gemm(machine, 64, 64, 64, batch=64).right_bytes <= tuned.block_bytes
    assert not _gemm(machine, 64, 64, 64, batch=64).is_prepacked


def test_rows_of_short_tiles_have_more_vectors_where_that_computes_less_in_vain(
    machine: Machine,
) -> None:
    lanes = machine.lanes(4)
    columns = {1: lanes, 2: 2 * lanes, 3: 3 * lanes}
    assert {n: _gemm(machine, 4, count, 64).vectors for n, count in columns.items()} == {
        n: n for n in columns
    }
    assert _gemm(machine, heights(machine)[0], 3 * lanes, 64).vectors == 2
    assert _gemm(machine, 4, 3 * lanes, 64, kind="i32").vectors == 2


def test_runs_of_steps_are_even_and_whole_squares(machine: Machine) -> None:
    gemm = _gemm(machine, 64, 64, 3000)
    assert gemm.run < 3000
    assert gemm.run % gemm.lanes == 0
    assert -(-3000 // gemm.run) == -(-3000 * 4 // gemm.tuning.k_block_bytes)
    assert _gemm(machine, 64, 64, 100).run == 100


@pytest.mark.parametrize("columns", [8, 70])
def test_a_paused_product_goes_on_where_it_waited(columns: int) -> None:
    """A flag that says WAIT is no cancellation: all results are there once it says GO."""
    left, right = np.ones((90, 33), np.float32), np.ones((33, columns), np.float32)
    (thunk,) = kernels_of(compile_module(imported(lower(jnp.dot, left, right))).code)
    result, cancellation = np.zeros((90, columns), np.float32), Cancellation()
    addresses = [each.ctypes.data for each in (left, right, result)]
    table = np.array([*addresses, cancellation.flag_address])
    kernels = Kernels(machine=HOST)
    loaded = kernels.get(thunk.kernel)
    cancellation.pause()
    threading.Timer(0.1, cancellation.proceed).start()
    call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    call(loaded.address)(None, None, table.ctypes.data, 0, thunk.kernel.items)
    np.testing.assert_array_equal(result, left @ right)
