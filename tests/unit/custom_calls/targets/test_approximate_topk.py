"""ApproxTopK, which misses nothing here."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import evaluated
from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import InvalidArgumentError, ShapeError

VALUES = np.float32([[3, 9, 4, 9], [1, 2, 3, 4]])
PLACES = np.broadcast_to(np.arange(4, dtype=np.int32), (2, 4))


def top(config: str, result: str = "(f32[2,2], s32[2,2])", operands: str = "x, i, a, b") -> Any:
    text = f"""
HloModule m
above {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  r = s32[] parameter(2)
  s = s32[] parameter(3)
  ROOT above = pred[] compare(p, q), direction=GT
}}
ENTRY main {{
  x = f32[2,4] parameter(0)
  i = s32[2,4] parameter(1)
  a = f32[] constant(-inf)
  b = s32[] constant(-1)
  ROOT top = {result} custom-call({operands}), custom_call_target="ApproxTopK",
    called_computations={{above}}, backend_config="{{{config}}}", api_version=API_VERSION_TYPED_FFI
}}
"""
    return evaluated(parse_hlo(text), [VALUES, PLACES])


CONFIG = "reduction_dim = 1 : i64, top_k = 2 : i64, aggregate_to_topk = true"


def test_gives_the_first_by_the_comparator_and_equal_ones_by_position() -> None:
    values, places = top(CONFIG)
    assert values.tolist() == [[9, 9], [4, 3]]
    assert places.tolist() == [[1, 3], [3, 2]]


def test_may_give_more_where_it_does_not_aggregate() -> None:
    values, _ = top(CONFIG.replace("true", "false"), "(f32[2,3], s32[2,3])")
    assert values.tolist() == [[9, 9, 4], [4, 3, 2]]


@pytest.mark.parametrize(
    ("config", "result", "operands", "words"),
    [
        (CONFIG.replace("k = 2", "k = 5"), "(f32[2,2], s32[2,2])", "x, i, a, b", "top_k 5"),
        (CONFIG.replace("dim = 1", "dim = 2"), "(f32[2,2], s32[2,2])", "x, i, a, b", "dim 2"),
        (CONFIG, "(f32[2,3], s32[2,3])", "x, i, a, b", "declared shape"),
        (CONFIG.replace("true", "false"), "(f32[2,1], s32[2,1])", "x, i, a, b", "at least"),
        (CONFIG, "(f32[2,2], s32[2,2])", "x, i, b, a", "scalar of the type"),
        (CONFIG, "(f32[2,2])", "x, a", "parameters"),
    ],
)
def test_what_does_not_fit_is_refused(config: str, result: str, operands: str, words: str) -> None:
    with pytest.raises(ShapeError, match=f"^custom-call %top.*: .*{words}"):
        top(config, result, operands)


def test_needs_its_numbers() -> None:
    with pytest.raises(InvalidArgumentError, match="attribute reduction_dim must be an integer"):
        top("top_k = 2 : i64")
