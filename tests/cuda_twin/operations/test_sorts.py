"""Sorts and the first k by kernels for a GPU, beside the interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda_twin.codes import assert_same, names, run
from tests.unit.codegen.compiled import built
from tests.unit.codegen.lower.indexing.test_sort import DTYPES, comparator, values
from xla_client import ops
from xla_client.programs.builder import Op
from xla_server.codegen.gpu.lower.indexing import tile_sort


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_keys_of_every_type(dtype: Any, descending: bool) -> None:
    x = values(dtype, (3, 100))
    assert_same(
        lambda a: ops.sort(
            a,
            comparator(ops.gt_total_order if descending else ops.lt_total_order, dtype)
            if np.dtype(dtype).kind == "f"
            else comparator(ops.gt if descending else ops.lt, dtype),
            is_stable=True,
        ),
        x,
    )


@pytest.mark.parametrize("length", [0, 1, 2, 3, 31, 32, 33, 257, 1000])
@pytest.mark.parametrize("dtype", ["i4", "u8"])
def test_every_length(length: int, dtype: str) -> None:
    x = values(dtype, (length, 2))
    less = comparator(lambda a, b, c, d: ops.lt(a, b), dtype, dtype)
    assert_same(lambda a: ops.sort([a, a], less, 0, is_stable=True), x)


@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_every_dimension(dimension: int) -> None:
    x, y = values("f4", (5, 40, 3)), values("i2", (5, 40, 3), 1)
    less = comparator(lambda a, b, c, d: ops.lt_total_order(a, b), "f4", "i2")
    assert_same(lambda a, b: ops.sort([a, b], less, dimension, is_stable=True), x, y)
    either = comparator(
        lambda a, b, c, d: ops.or_(ops.lt(c, d), ops.and_(ops.eq(c, d), ops.gt_total_order(a, b))),
        "f4",
        "i2",
    )
    assert_same(lambda a, b: ops.sort([a, b], either, dimension, is_stable=True), x, y)


@pytest.mark.parametrize("length", [2, 3, 64, 101])
def test_a_comparator_that_has_no_key_is_asked(length: int) -> None:
    nearer = comparator(
        lambda a, b: ops.or_(ops.lt(a * a, b * b), ops.and_(ops.eq(a * a, b * b), ops.lt(a, b))),
        "f4",
    )
    x = (np.random.default_rng(7).integers(-9, 9, (4, length))).astype(np.float32)
    assert_same(lambda a: ops.sort(a, nearer), x)


def test_zeros_of_both_signs_are_equal_where_the_comparator_says_so() -> None:
    x = np.array([0.0, -0.0, 1, -1, -0.0, 0.0] * 9, np.float32)
    for compare in (ops.lt, ops.gt):
        order = comparator(compare, "f4")
        assert_same(lambda a, order=order: ops.sort(a, order, is_stable=True), x)


@pytest.mark.parametrize("compare", [ops.ge, lambda a, b: ops.eq(a, a)])
def test_a_comparator_that_contradicts_itself_gives_some_permutation(
    compare: Callable[..., Op],
) -> None:
    x = values("i4", (50,))
    (found,) = run(built(lambda a: ops.sort(a, comparator(compare, "i4")), [x]), x)
    np.testing.assert_array_equal(np.sort(found), np.sort(x))


@pytest.mark.parametrize("length", [64, 200, 1000])
def test_a_comparator_that_orders_nothing_keeps_each_element(length: int) -> None:
    """NaN is neither before nor after anything; other lines are in order."""
    x, y = values("f4", (3, length)), values("i4", (3, length)) % 3
    x[1] = np.arange(length, 0, -1)
    order = comparator(
        lambda a, b, c, d: ops.or_(ops.lt(a, b), ops.and_(ops.eq(a, b), ops.lt(c, d))), "f4", "i4"
    )
    found = run(built(lambda a, b: ops.sort([a, b], order), [x, y]), x, y)
    for line in range(3):
        pairs = zip(found[0][line].view(np.int32), found[1][line], strict=True)
        assert sorted(pairs) == sorted(zip(x[line].view(np.int32), y[line], strict=True))
    np.testing.assert_array_equal(found[0][1], np.sort(x[1]))
    z = values("i4", (length,))
    for compare in (ops.ne, lambda a, b: ops.lt(ops.rem(a, b), b)):
        (ours,) = run(built(lambda a, c=compare: ops.sort(a, comparator(c, "i4")), [z]), z)
        np.testing.assert_array_equal(np.sort(ours), np.sort(z))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_k_of_every_type(dtype: Any) -> None:
    x = values(dtype, (2, 3, 100))
    assert_same(lambda a: ops.top_k(a, 7), x)
    assert_same(lambda a: ops.top_k(a, 70, largest=False), x)


@pytest.mark.parametrize(("length", "k"), [(100, 0), (100, 1), (100, 100), (1, 1), (513, 30)])
def test_any_k(length: int, k: int) -> None:
    assert_same(lambda a: ops.top_k(a, k, largest=k % 2 == 0), values("i8", (2, length)))


@pytest.mark.parametrize("length", [256, 257, 512, 1000])
def test_tiles_are_merged(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_sort, "MAX_TILE", 256)
    x = values("i2", (length, 2)) % 50
    less = comparator(lambda a, b, c, d: ops.lt(a, b), "i2", "i2")
    assert_same(lambda a: ops.sort([a, a], less, 0, is_stable=True), x)
    square = comparator(lambda a, b: ops.lt(a * a + b, b * b + a), "i2")
    assert_same(lambda a: ops.sort(a, square, 0), np.abs(x) % 7)


@pytest.mark.parametrize(
    ("lines", "length"), [(1, 5), (70, 3), (33, 8), (31, 9), (5, 64), (3, 65), (2, 129)]
)
def test_a_block_sorts_several_short_lines(lines: int, length: int) -> None:
    x = values("f4", (lines, length))
    less = comparator(lambda a, b, c, d: ops.lt_total_order(a, b), "f4", "f4")
    assert_same(lambda a: ops.sort([a, a], less, 1, is_stable=True), x)
    either = comparator(lambda a, b: ops.lt(a * 0.5 + b, b * 0.5 + a), "f4")
    y = np.random.default_rng(5).integers(-9, 9, (lines, length)).astype(np.float32)
    assert_same(lambda a: ops.sort(a, either, 1), y)


def test_runs_double_and_elements_move_once() -> None:
    def of(length: int, dtype: str = "f4") -> list[str]:
        x = np.zeros((3, length), dtype)
        less = comparator(ops.lt, dtype)
        return names(lambda a: ops.sort(a, less, 1), x)

    assert of(1) == []
    assert of(2) == of(8) == ["runs.8", ""]
    assert of(100) == ["runs.128", ""]
    assert of(257) == ["runs.512", ""]
    assert of(2048, "f8") == ["runs.2048", ""]
    assert of(5000) == ["runs.2048", "runs.4096", "runs.8192", ""]
    assert names(lambda a: ops.top_k(a, 3), np.zeros((2, 4), np.float32)) == ["runs.8", ""]
