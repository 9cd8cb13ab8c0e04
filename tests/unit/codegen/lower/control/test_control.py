"""Rows of control flow: jumps, and copies of no more state than changes."""

from typing import Any

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import interpreted, on_cpu
from xla_server.buffers.code import Branch, Code, CopyThunk, Jump, KernelThunk, Label, Switch
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.text.parser import parse_module

LOOP = """HloModule m
body {{ s = (s32[], f32[17], f32[17], f32[17]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[17] get-tuple-element(s), index=1
  y = f32[17] get-tuple-element(s), index=2
  same = f32[17] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[17] add({read}, same)
  ROOT t = (s32[], f32[17], f32[17], f32[17]) tuple(j, {first}, {second}, same) }}
test {{ s = (s32[], f32[17], f32[17], f32[17]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(5)
  ROOT l = pred[] compare(i, limit), direction=LT }}
ENTRY e {{ n = s32[] parameter(0)
  a = f32[17] parameter(1)
  b = f32[17] parameter(2)
  c = f32[17] parameter(3)
  s = (s32[], f32[17], f32[17], f32[17]) tuple(n, a, b, c)
  w = (s32[], f32[17], f32[17], f32[17]) while(s), condition=test, body=body
  x = f32[17] get-tuple-element(w), index=1
  y = f32[17] get-tuple-element(w), index=2
  ROOT t = (f32[17], f32[17]) tuple(x, y) }}"""
CHOICE = """HloModule m
one {{ x = f32[17] parameter(0)
  ROOT r = f32[17] negate(x) }}
two {{ x = f32[17] parameter(0)
  ROOT r = f32[17] exponential(x) }}
ENTRY e {{ k = {kind} parameter(0)
  x = f32[17] parameter(1)
  ROOT r = f32[17] conditional(k, x, x), {branches} }}"""
ARRAYS = [np.full(17, number, np.float32) for number in (2, 3, 4)]


def _code(text: str) -> Code:
    return lower(parse_module(text), LOWERINGS, TARGET)


def _kinds(code: Code) -> list[type[Any]]:
    return [type(thunk) for thunk in code.thunks]


def test_a_loop_jumps_back_to_its_condition_and_leaves_from_there() -> None:
    thunks = _code(LOOP.format(read="x", first="r", second="y")).thunks
    (branch,) = (thunk for thunk in thunks if isinstance(thunk, Branch))
    (jump,) = (thunk for thunk in thunks if isinstance(thunk, Jump))
    assert isinstance(thunks[-1], Label)
    assert branch.otherwise is thunks[-1]
    assert thunks[-2] is jump
    assert thunks.index(jump.label) < thunks.index(branch)


def test_what_a_body_hands_on_is_not_copied() -> None:
    code = _code(LOOP.format(read="x", first="r", second="y"))
    initial = {thunk.source.name for thunk in code.thunks if isinstance(thunk, CopyThunk)}
    assert {"n", "a"} <= initial
    assert not {"b", "c"} & initial


def test_one_element_of_a_cycle_of_the_state_is_saved() -> None:
    text = LOOP.format(read="x", first="y", second="x")
    copies = [thunk for thunk in _code(text).thunks if isinstance(thunk, CopyThunk)]
    assert sum(thunk.target.name.endswith(".saved") for thunk in copies) == 1
    found = on_cpu(parse_module(text), [np.int32(0), *ARRAYS])
    # Five times the other way round.
    np.testing.assert_array_equal(found, [ARRAYS[1], ARRAYS[0]])


def test_state_that_shifts_is_copied_from_its_end() -> None:
    text = LOOP.format(read="x", first="r", second="x")
    copies = [thunk for thunk in _code(text).thunks if isinstance(thunk, CopyThunk)]
    assert not any(thunk.target.name.endswith(".saved") for thunk in copies)
    found = on_cpu(parse_module(text), [np.int32(0), *ARRAYS])
    # Five and four times 4 more.
    np.testing.assert_array_equal(found, [ARRAYS[0] + 20, ARRAYS[0] + 16])


@pytest.mark.parametrize("order", [(1, 2, 0, 4, 3, 5), (1, 1, 3, 0, 2, 2), (4, 0, 4, 2, 3, 0)])
def test_state_in_any_order_is_copied_as_if_at_once(order: tuple[int, ...]) -> None:
    state = f"(s32[], {', '.join(['f32[17]'] * 6)})"
    elements = [f"x{n} = f32[17] get-tuple-element(s), index={n + 1}" for n in range(6)]
    module = parse_module(
        f"""HloModule m
    body {{ s = {state} parameter(0)
      i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)
      j = s32[] add(i, one)
      {"; ".join(elements)}
      ROOT t = {state} tuple(j, {", ".join(f"x{n}" for n in order)}) }}
    test {{ s = {state} parameter(0)
      i = s32[] get-tuple-element(s), index=0
      limit = s32[] constant(2)
      ROOT l = pred[] compare(i, limit), direction=LT }}
    ENTRY e {{ zero = s32[] constant(0)
      {"; ".join(f"x{n} = f32[17] parameter({n})" for n in range(6))}
      s = {state} tuple(zero, {", ".join(f"x{n}" for n in range(6))})
      ROOT w = {state} while(s), condition=test, body=body }}""".replace("; ", "\n")
    )
    _, *found = on_cpu(module, [np.full(17, n, np.float32) for n in range(6)])
    assert [part[0] for part in found] == [order[n] for n in order]


def test_a_predicate_branches_and_an_index_switches() -> None:
    text = CHOICE.format(kind="pred[]", branches="true_computation=one, false_computation=two")
    kinds = _kinds(_code(text))
    assert (kinds.count(Branch), kinds.count(Switch)) == (1, 0)
    text = CHOICE.format(kind="s32[]", branches="branch_computations={one, two}")
    code = _code(text)
    (switch,) = (thunk for thunk in code.thunks if isinstance(thunk, Switch))
    assert len(switch.labels) == 2
    assert sum(isinstance(thunk, Jump) for thunk in code.thunks) == 2
    assert sum(isinstance(thunk, KernelThunk) for thunk in code.thunks) == 2


def test_tuples_copies_and_barriers_have_no_rows() -> None:
    text = """HloModule m
    ENTRY e { x = f32[4,6] parameter(0)
      c = f32[4,6] copy(x)
      b = f32[4,6] opt-barrier(c)
      t = (f32[4,6], f32[4,6]) tuple(b, x)
      g = f32[4,6] get-tuple-element(t), index=0
      ROOT r = f32[24] reshape(g) }"""
    code = _code(text)
    assert not code.thunks
    assert code.results == code.parameters


CONSTANT = "(s32[], (f32[3], pred[2])) constant((7, ({1, 2, 3}, {true, false})))"
OF_CONSTANTS = (
    f"f {{ ROOT c = {CONSTANT} }}",
    f"f {{ c = {CONSTANT} p = get-tuple-element(c), index=1 v = get-tuple-element(p), index=0 "
    "i = get-tuple-element(c), index=0 ROOT r = dynamic-update-slice(v, f32[1] constant({9}), i) }",
    "b { s = (s32[], f32[3]) parameter(0) i = get-tuple-element(s), index=0 v = "
    "get-tuple-element(s), index=1 ROOT t = tuple(add(i, s32[] constant(1)), add(v, v)) } "
    "l { s = (s32[], f32[3]) parameter(0) i = get-tuple-element(s), index=0 "
    "ROOT c = compare(i, s32[] constant(3)), direction=LT } ENTRY f { "
    "s = (s32[], f32[3]) constant((0, {1, 2, 3})) ROOT w = while(s), condition=l, body=b }",
)


@pytest.mark.parametrize("text", OF_CONSTANTS)
def test_constants_that_are_tuples_keep_their_elements(text: str) -> None:
    module = parse_module(text)
    for _ in range(2):
        ours, theirs = on_cpu(module, []), interpreted(module, [])
        assert str(ours) == str(theirs)
