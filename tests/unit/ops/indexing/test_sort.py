from itertools import pairwise

import numpy as np
import pytest

from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module


@pytest.mark.parametrize("length", [0, 1, 2, 3, 17, 64, 100])
def test_any_comparator_sorts_every_length_stably(length: int) -> None:
    text = program(
        [f"f32[{length},2]", f"s32[{length},2]"],
        f"(f32[{length},2], s32[{length},2]) sort(x0, x1), dimensions={{0}}, is_stable=true, "
        "to_apply=by_value",
    )
    keys = np.random.default_rng(length).integers(0, 9, (length, 2)).astype(np.float32)
    places = np.broadcast_to(np.arange(length, dtype=np.int32)[:, None], keys.shape)
    values, moved = evaluate(import_module(parse_hlo(text)), [keys, places])  # type: ignore[misc]
    order = np.argsort(-keys, axis=0, kind="stable")
    np.testing.assert_array_equal(moved, order)
    np.testing.assert_array_equal(values, np.take_along_axis(keys, order, 0))


def test_a_comparator_that_contradicts_itself_gives_some_permutation() -> None:
    text = program(["f32[9]"], "f32[9] sort(x0), dimensions={0}, to_apply=ge")
    found = evaluate(import_module(parse_hlo(text)), [np.full(9, 2, np.float32)])
    np.testing.assert_array_equal(found, np.full(9, 2, np.float32))


def test_unsigned_integers_sort_down_without_overflow() -> None:
    text = program(["s32[4]"], "s32[4] sort(x0), dimensions={0}, to_apply=descending")
    keys = np.array([-(2**31), 5, 2**31 - 1, 0], np.int32)
    found = evaluate(import_module(parse_hlo(text)), [keys])
    assert all(a > b for a, b in pairwise(found))  # type: ignore[arg-type]
