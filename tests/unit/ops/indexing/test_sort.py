from itertools import pairwise

import numpy as np
import pytest

from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.ops.definitions import infer_shape
from xla_contract.ops.indexing.sort import SortAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module

F32 = Shape.parse("f32[]")
LESS = ProgramShape((F32, F32), Shape.parse("pred[]"))


def infer(dimension: int, *operands: str, comparator: ProgramShape = LESS) -> str:
    shapes = [Shape.parse(text) for text in operands]
    return str(infer_shape(Opcode.SORT, shapes, SortAttributes(dimension), [comparator]))


def test_shapes_stay() -> None:
    assert infer(1, "f32[2,3]{0,1}") == "f32[2,3]"
    four = ProgramShape((F32,) * 4, Shape.parse("pred[]"))
    assert infer(0, "f32[2]", "f32[2]", comparator=four) == "(f32[2], f32[2])"


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


def test_a_comparator_that_gives_no_order_gives_some_permutation() -> None:
    text = program(["f32[17]"], "f32[17] sort(x0), dimensions={0}, to_apply=ge")
    keys = np.resize(np.array([3, 1, np.nan, 2, 2, np.inf, 5], np.float32), 17)
    found = evaluate(import_module(parse_hlo(text)), [keys])
    np.testing.assert_array_equal(np.sort(found), np.sort(keys))  # type: ignore[arg-type]


def test_unsigned_integers_sort_down_without_overflow() -> None:
    text = program(["s32[4]"], "s32[4] sort(x0), dimensions={0}, to_apply=descending")
    keys = np.array([-(2**31), 5, 2**31 - 1, 0], np.int32)
    found = evaluate(import_module(parse_hlo(text)), [keys])
    assert all(a > b for a, b in pairwise(found))  # type: ignore[arg-type]
