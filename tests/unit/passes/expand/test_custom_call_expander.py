"""Custom calls as the operations that say the same."""

import pytest

from tests.unit.passes.passing import imported, opcodes, rewritten, stated
from xla_server.custom_calls.targets import partitioning_markers
from xla_server.passes.expand.custom_call_expander import CustomCallExpander

PASS = CustomCallExpander()


def called(result: str, operands: str, target: str, rest: str = "") -> str:
    return f'{result} custom-call({operands}), custom_call_target="{target}"{rest}'


@pytest.mark.parametrize("target", partitioning_markers.NAMES)
def test_a_marked_value_is_the_value(target: str) -> None:
    before = stated(["f32[2,3]"], "f32[2,3] negate(m)", f"m = {called('f32[2,3]', 'x0', target)}")
    assert opcodes(rewritten(before, PASS)) == {"negate": 1}


def test_top_k() -> None:
    before = stated(["f32[4,9]"], called("(f32[4,3], s32[4,3])", "x0", "TopK"))
    assert opcodes(rewritten(before, PASS)) == {"topk": 1}


@pytest.mark.parametrize(("shape", "expected"), [("f32[4]", "broadcast"), ("s32[0]", "constant")])
def test_an_empty_array_is_zeros(shape: str, expected: str) -> None:
    after = rewritten(stated([], called(shape, "", "AllocateBuffer")), PASS)
    assert after.entry.root.opcode == expected
    assert "custom-call" not in opcodes(after)


def approximate(config: str, result: str) -> str:
    return f"""HloModule m
above {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  r = s32[] parameter(2)
  s = s32[] parameter(3)
  ROOT above = pred[] compare(p, q), direction=GT
}}
ENTRY main {{
  x = f32[4,3] parameter(0)
  i = s32[4,3] parameter(1)
  a = f32[] constant(-inf)
  b = s32[] constant(-1)
  ROOT top = {called(result, "x, i, a, b", "ApproxTopK", ", called_computations={above}")},
    backend_config="{{reduction_dim = 0 : i64, {config}}}", api_version=API_VERSION_TYPED_FFI
}}
"""


@pytest.mark.parametrize(
    ("config", "result"),
    [
        ("top_k = 2 : i64", "(f32[2,3], s32[2,3])"),
        ("top_k = 2 : i64, aggregate_to_topk = false", "(f32[3,3], s32[3,3])"),
    ],
)
def test_an_approximate_top_k(config: str, result: str) -> None:
    after = rewritten(imported(approximate(config, result)), PASS)
    assert opcodes(after)["sort"] == 1
    assert "custom-call" not in opcodes(after)


@pytest.mark.parametrize(
    ("result", "target"), [("f32[3]", "Sharding"), ("f32[2]", "lapack_spotrf_ffi")]
)
def test_what_is_refused_or_says_something_else_stays(result: str, target: str) -> None:
    before = stated(["f32[2]"], called(result, "x0", target))
    assert not PASS.apply(before)
    assert opcodes(before)["custom-call"] == 1
