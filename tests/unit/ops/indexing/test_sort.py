from itertools import pairwise

import numpy as np
import pytest

from tests.corpus.root_text import run_text


@pytest.mark.parametrize("length", [0, 1, 2, 3, 17, 64, 100])
def test_any_comparator_sorts_every_length_stably(length: int) -> None:
    shapes = [f"f32[{length},2]", f"s32[{length},2]"]
    root = f"({', '.join(shapes)}) sort(x0, x1), dimensions={{0}}, is_stable=true, "
    keys = np.random.default_rng(length).integers(0, 9, (length, 2)).astype(np.float32)
    positions = np.broadcast_to(np.arange(length, dtype=np.int32)[:, None], keys.shape)
    values, moved = run_text(shapes, root + "to_apply=by_value", [keys, positions])
    order = np.argsort(-keys, axis=0, kind="stable")
    np.testing.assert_array_equal(moved, order)
    np.testing.assert_array_equal(values, np.take_along_axis(keys, order, 0))


def test_a_comparator_that_gives_no_order_gives_some_permutation() -> None:
    keys = np.resize(np.array([3, 1, np.nan, 2, 2, np.inf, 5], np.float32), 17)
    found = run_text(["f32[17]"], "f32[17] sort(x0), dimensions={0}, to_apply=ge", [keys])
    np.testing.assert_array_equal(np.sort(found), np.sort(keys))  # type: ignore[arg-type]


def test_unsigned_integers_sort_down_without_overflow() -> None:
    keys = np.array([-(2**31), 5, 2**31 - 1, 0], np.int32)
    found = run_text(["s32[4]"], "s32[4] sort(x0), dimensions={0}, to_apply=descending", [keys])
    assert all(a > b for a, b in pairwise(found))
