"""Nests cut where the operands of a concatenate meet and at the edges of a pad."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.processors import TARGET, tuned
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, pairs, texts_of
from tests.unit.codegen.schedules.graphs import function, load, store
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.schedules.builders.collapse import collapsed
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.nests.pieces import piece_kernel
from xla_server.codegen.trace.graph import Apply, Immediate, Position, Store
from xla_server.ir.analysis.affine import Affine

_RANDOM = np.random.default_rng(0)
X = _RANDOM.standard_normal((40, 96)).astype(np.float32)
Y = _RANDOM.standard_normal((40, 32)).astype(np.float32)
LINE = _RANDOM.standard_normal(5000).astype(np.float32)
IMAGE = _RANDOM.standard_normal((2, 9, 11, 24)).astype(np.float32)


def _moved(module: Any) -> Any:
    def edges(x: Any) -> Any:
        return jnp.pad(jnp.concatenate([x, x]), 1)

    def columns(x: Any, y: Any) -> Any:
        return jnp.concatenate([x, y * 2, x - 1], 1)

    def lines(line: Any) -> Any:
        return jnp.concatenate([line, line[:7] * 3, line])

    def borders(image: Any) -> Any:
        return jnp.pad(image * 2, ((0, 0), (1, 2), (1, 1), (0, 0)), constant_values=1.5)

    def mirrored(x: Any) -> Any:
        return jnp.concatenate([x[:, ::-1], x], 1)[:, ::-1] + 1

    def cut_off(x: Any) -> Any:
        return lax.pad(x, np.float32(7), ((-3, 50, 0), (4, -20, 0)))

    def nothing_left(x: Any) -> Any:
        return lax.pad(x, np.float32(7), ((60, -40, 0), (0, 0, 0))) * 3

    def rotated(image: Any) -> Any:
        low, high = jnp.split(image, 2, -1)
        return image * 2 + jnp.concatenate([-high, low], -1)

    def dilated(image: Any) -> Any:
        return lax.pad(image * 2, np.float32(7), ((0, 0, 0), (1, 0, 1), (0, 0, 0), (0, 0, 0)))

    def scanned(image: Any) -> Any:
        return lax.associative_scan(lax.add, image, axis=2)

    def stacked(rows: Any) -> Any:
        return rows + jnp.stack([rows[0] - rows[1], rows[1] * rows[2], rows[2] / 3])

    def middle(image: Any) -> Any:
        return jnp.concatenate([image, image[:, :4], -image], 1)

    def quarters(x: Any, y: Any) -> Any:
        return jnp.block([[x, y], [y, x]])

    def quarters_of_columns(x: Any) -> Any:
        return jnp.concatenate([jnp.roll(x, 7, 0), jnp.roll(x, 9, (0, 1))], 1)

    return locals()[module]


CASES: dict[str, tuple[tuple[Any, ...], int]] = {
    "edges": ((X,), 4),
    "columns": ((X, Y), 1),
    "lines": ((LINE,), 3),
    "borders": ((IMAGE,), 3),
    "mirrored": ((X,), 1),
    "cut_off": ((X,), 2),
    "nothing_left": ((X,), 1),
    "rotated": ((IMAGE,), 1),
    "dilated": ((IMAGE,), 18),
    "scanned": ((IMAGE,), 1),
    "middle": ((IMAGE,), 3),
    "stacked": ((X[:3, :32],), 3),
    "quarters": ((X, Y), 2),
    "quarters_of_columns": ((X,), 3),
}
"""Arguments, and the loops over work items that a program's last kernel has."""


@pytest.mark.parametrize("name", CASES)
def test_cut_nests_hold_no_tests(name: str) -> None:
    arguments, count = CASES[name]
    module = imported(lower(_moved(name), *arguments))
    text = texts_of(module)[-1]
    assert not re.search(r"\b(select|ge|lt)\(", text)
    assert text.count("\n    for ") == count
    for ours, expected in pairs(module, arguments):
        assert_equal_bits(ours, expected)


@pytest.mark.parametrize(("offsets", "runs"), [((0, 1, 2), 1), ((0, 1, 3, 2), 3)])
def test_slices_that_go_on_in_memory_are_one_run(offsets: tuple[int, ...], runs: int) -> None:
    module = imported(
        lower(lambda x: jnp.concatenate([x[:, :, k : k + 8] for k in offsets], 3), IMAGE)
    )
    (text,) = texts_of(module)
    assert text.count("load_f32") + text.count("copy_bytes(") == runs
    assert_equal_bits(on_cpu(module, (IMAGE,))[0], interpreted(module, (IMAGE,))[0])


def _uncut() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    return {
        "few elements": (lambda y: jnp.concatenate([y, y * 2], 1), (Y[:1, :30],)),
        "few with long code": (lambda y: jnp.concatenate([y, jnp.sin(y)], 1) + 1, (Y[:4],)),
        "between elements": (
            lambda x: lax.pad(x, np.float32(7), ((0, 0, 0), (1, 2, 9))),
            (X,),
        ),
        "sums": (lambda x: jnp.pad(x, 3).sum(1), (X[:8, :40],)),
    }


@pytest.mark.parametrize("name", ["few elements", "few with long code", "between elements", "sums"])
def test_what_is_not_cut_is_right_too(name: str) -> None:
    function, arguments = _uncut()[name]
    module = imported(lower(function, *arguments))
    assert any("select(" in text for text in texts_of(module))
    for ours, expected in pairs(module, arguments):
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("columns", [32, 5])
def test_any_number_of_elements_is_cut_in_loops(columns: int) -> None:
    def mirrored(_: int, x: Any) -> Any:
        return jnp.concatenate([-x[:, columns:], jnp.abs(x[:, :columns])], 1)

    x = X[:2, : 2 * columns]
    module = imported(lower(lambda x, count: lax.fori_loop(0, count, mirrored, x), x, np.int32(5)))
    assert not any("select(" in text for text in texts_of(module))
    arguments = (x, np.int32(5))
    assert_equal_bits(on_cpu(module, arguments)[0], interpreted(module, arguments)[0])


def test_where_cuts_are_too_many_short_parts_are_tested() -> None:
    def shifted(x: Any) -> Any:
        rows = [jnp.roll(x, by, 0) for by in (1, 2, 3)]
        return sum((jnp.roll(x, by, 1) for by in range(2, 11)), sum(rows, x))

    x = _RANDOM.standard_normal((64, 400)).astype(np.float32)
    module = imported(lower(shifted, x))
    (text,) = texts_of(module)
    loops = re.split(r"\n +for ", text)[1:]
    assert any("select(" in loop for loop in loops)
    (inside,) = [loop for loop in loops if "load_" in loop and "select(" not in loop]
    assert "range(390)" in inside
    assert_equal_bits(on_cpu(module, (x,))[0], interpreted(module, (x,))[0])


def test_copies_of_a_filter_are_bound_over_few_elements_and_long_rows() -> None:
    def filtered(x: Any) -> Any:
        padded = [jnp.pad(x, ((0, 0), (by, 0)))[:, : x.shape[1]] for by in range(15)]
        return sum(each * (by + 0.5) for by, each in enumerate(padded))

    x = _RANDOM.standard_normal((40, 1024)).astype(np.float32)
    few, many, long = x[:1, :400], x[:, :400], x[:5]
    modules = [imported(lower(filtered, rows)) for rows in (few, many, long)]
    counts = [text.count("store_f32(") for module in modules for text in texts_of(module)]
    assert counts == [2, 15, 2]
    assert_equal_bits(on_cpu(modules[0], (few,))[0], interpreted(modules[0], (few,))[0])


@pytest.mark.parametrize(("side", "is_cut"), [(12, False), (32, True)])
def test_pieces_have_no_more_operations_than_the_result_has_elements(
    side: int, is_cut: bool
) -> None:
    def summed(x: Any) -> Any:
        ways = itertools.product(range(3), repeat=2)
        padded = [jnp.pad(x, ((a, 2 - a), (b, 2 - b)))[1:-1, 1:-1] for a, b in ways]
        return sum(each * (by + 0.5) for by, each in enumerate(padded))

    x = _RANDOM.standard_normal((side, side)).astype(np.float32)
    (text,) = texts_of(imported(lower(summed, x)))
    assert (text.count("store_f32(") == 9) is is_cut


def test_where_only_rows_are_cut_tests_choose_between_rows() -> None:
    def shifted(x: Any) -> Any:
        return sum(jnp.roll(x, by, axis) for axis in range(3) for by in (1, -1))

    x = _RANDOM.standard_normal((24, 24, 24)).astype(np.float32)
    module = imported(lower(shifted, x))
    (text,) = texts_of(module)
    # Rows share work items, so the loop over elements of a row is the third one.
    (loads,) = re.findall(r"((?: {16}.*load_f32.*\n| {16}.*\n)+)", text)
    assert loads.count("load_f32(") >= 6
    assert not re.search(r"load_f32\(.*select", loads)
    assert_equal_bits(on_cpu(module, (x,))[0], interpreted(module, (x,))[0])


@pytest.mark.parametrize("max_runs", [1, 4, 24])
def test_a_box_is_traced_once_for_all_attempts(max_runs: int) -> None:
    traced = []

    def make(index: Sequence[Affine]) -> list[Store]:
        traced.append(tuple((at.constant, at.high) for at in index))
        at = index[0] * 999 + index[1]
        tests = [
            Apply("lt", (Position(part), Immediate.of("i64", cut)), "b1")
            for part, cuts in zip(index, ((3, 20), (5, 90)), strict=True)
            for cut in cuts
        ]
        kept = [
            function("select", test, load(at), Immediate.of("f32", n))
            for n, test in enumerate(tests)
        ]
        return [store(at, functools.reduce(functools.partial(function, "add"), kept))]

    pieces = dataclasses.replace(TARGET.tuning.loops.pieces, max_runs=max_runs)
    target = tuned(TARGET, "loops", pieces=pieces)
    nest = Nest(*collapsed((24, 96), make), target)
    traced.clear()
    kernel = piece_kernel(nest, (24, 96), make)
    assert (kernel is None) is (max_runs == 1)
    assert len(set(traced)) == len(traced) > 1


@pytest.mark.parametrize("limit", ["max_runs", "max_nodes"])
@pytest.mark.parametrize("name", ["edges", "quarters"])
def test_nests_with_too_many_pieces_stay_whole(name: str, limit: str) -> None:
    module = imported(lower(_moved(name), *CASES[name][0]))
    pieces = dataclasses.replace(TARGET.tuning.loops.pieces, **{limit: 1})
    code = compile_module(module, target=tuned(TARGET, "loops", pieces=pieces)).code
    assert any("select(" in thunk.source for thunk in kernels_of(code))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_long_runs_that_begin_anywhere_in_a_line_are_copied_as_bytes(dtype: str) -> None:
    def edge(x: Any) -> Any:
        return jnp.pad(x, ((0, 0), (1, 0)))

    x = np.asarray(jnp.asarray(_RANDOM.standard_normal((40, 300)), dtype))
    module = imported(lower(edge, x))
    assert "copy_bytes(" in texts_of(module)[-1]
    (ours,), (expected,) = on_cpu(module, (x,)), interpreted(module, (x,))
    assert_equal_bits(ours, expected)


@pytest.mark.parametrize("columns", [100, 256])
def test_short_runs_and_those_of_whole_lines_are_loops(columns: int) -> None:
    x = _RANDOM.standard_normal((40, columns)).astype(np.float32)
    ahead = 16 if columns == 256 else 1
    (text,) = texts_of(imported(lower(lambda x: jnp.pad(x, ((0, 0), (ahead, 0))), x)))
    assert "copy_bytes(" not in text


@pytest.mark.parametrize("rows", [70, 9])
def test_short_rows_share_a_work_item(rows: int) -> None:
    image = _RANDOM.standard_normal((rows, 4, 3)).astype(np.float32)

    def padded(image: Any) -> Any:
        return jnp.pad(jnp.tile(image, (1, 3, 4)), ((1, 1), (0, 0), (0, 0)))

    module = imported(lower(padded, image))
    (kernel,) = kernels_of(compile_module(module).code)
    # Two more pieces have one row each.
    assert kernel.work_items < 2 * rows
    assert_equal_bits(on_cpu(module, [image])[0], padded(image))


@pytest.mark.parametrize("features", [4, 34, 128])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_rows_of_several_runs_share_a_work_item(dtype: str, features: int) -> None:
    """Pairs of elements turned by angles of their own (rotary embeddings)."""
    x, cos, sin = (
        np.asarray(jnp.asarray(_RANDOM.standard_normal(sizes) * 9, dtype))
        for sizes in ((3, 31, 7, features), (31, 1, features // 2), (31, 1, features // 2))
    )

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x[..., ::2], x[..., 1::2]
        return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)

    module = imported(lower(turned, x, cos, sin))
    (kernel,) = kernels_of(compile_module(module).code)
    least = TARGET.tuning.loops.pieces.min_item_elements
    assert kernel.work_items * least <= x.size
    assert_equal_bits(on_cpu(module, [x, cos, sin])[0], interpreted(module, [x, cos, sin])[0])


def test_rows_of_several_runs_in_few_long_loops_are_cut_into_blocks() -> None:
    x, y = (
        _RANDOM.standard_normal(sizes).astype(np.float32) for sizes in ((2, 20_011, 3), (2, 1, 3))
    )

    def stacked(x: Any, y: Any) -> Any:
        return jnp.stack([x * y, x + y], -1)

    module = imported(lower(stacked, x, y))
    (kernel,) = kernels_of(compile_module(module).code)
    pieces = TARGET.tuning.loops.pieces
    assert pieces.blocks <= kernel.work_items <= 2 * x.size // pieces.block + 2
    assert_equal_bits(on_cpu(module, [x, y])[0], interpreted(module, [x, y])[0])


def test_rows_of_one_loop_are_work_items() -> None:
    """Their index needs no division."""
    x, y = (_RANDOM.standard_normal(5000).astype(np.float32) for _ in range(2))
    module = imported(lower(lambda x, y: jnp.stack([x * y, x + y], -1), x, y))
    (kernel,) = kernels_of(compile_module(module).code)
    assert kernel.work_items == x.size
    assert "whole_" not in kernel.source


@pytest.mark.parametrize("repeats", [4, 5, 63])
def test_short_rows_of_few_long_loops_share_a_block(repeats: int) -> None:
    line = _RANDOM.standard_normal(20_011).astype(np.float32)

    def moved(line: Any) -> Any:
        return jnp.tile(jnp.repeat(jnp.roll(jnp.flip(line), 3000), repeats), 3)

    module = imported(lower(moved, line))
    (kernel,) = kernels_of(compile_module(module).code)
    pieces, elements = TARGET.tuning.loops.pieces, 3 * repeats * line.size
    # Two loops for each of three tiles end in a shorter block.
    assert pieces.blocks <= kernel.work_items <= elements // pieces.block + 2 * 3
    assert_equal_bits(on_cpu(module, [line])[0], moved(line))


def test_a_loop_shorter_than_a_block_is_cut_if_its_rows_are_long() -> None:
    line = _RANDOM.standard_normal(1001).astype(np.float32)

    def moved(line: Any) -> Any:
        return jnp.tile(jnp.repeat(jnp.roll(jnp.flip(line), 300), 63), 3)

    module = imported(lower(moved, line))
    (kernel,) = kernels_of(compile_module(module).code)
    # Each of three tiles has two loops.
    assert kernel.work_items > 3 * 2
    assert_equal_bits(on_cpu(module, [line])[0], moved(line))
