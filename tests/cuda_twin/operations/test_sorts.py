"""Sorts and the first k by kernels for a GPU, beside the interpreter."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.cuda_twin.codes import assert_same, names, run
from tests.unit.codegen.compiled import built
from tests.unit.codegen.lower.indexing.test_sort import comparator, values
from xla_client import ops
from xla_client.programs.builder import Op
from xla_server.codegen.gpu.lower.indexing import merge_sort


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


@pytest.mark.parametrize("length", [256, 257, 512, 1000])
def test_tiles_are_merged(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_sort, "MAX_TILE", 256)
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


@pytest.mark.parametrize("k", [1, 3, 16, 17])
@pytest.mark.parametrize("length", [31, 32, 33, 100, 1024, 1100])
def test_the_first_of_runs_are_sorted_again(
    length: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_sort, "MAX_TILE", 32)
    # Few values, so that many are equal, of which the first are chosen.
    x = np.random.default_rng(length).integers(0, 9, (3, length)).astype(np.float32)
    assert_same(lambda a: ops.top_k(a, k), x)


def test_the_first_of_long_lines_take_launches_by_the_logarithm_of_their_number() -> None:
    def of(length: int, k: int) -> list[str]:
        return names(lambda a: ops.top_k(a, k), np.zeros((2, length), np.float32))

    assert of(50_000, 10) == ["runs.2048", "first.runs.256", ""]
    again = [f"{'first.' * n}runs.{width}" for n, width in enumerate((2048, 2048, 2048, 256))]
    assert of(1_000_000, 100) == [*again, ""]
    assert of(5000, 1025) == ["runs.2048", "runs.4096", "runs.8192", ""]


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
