"""Loops and conditionals made smaller, or none."""

from typing import Any

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, imported, opcodes, passed, rewritten
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.loops.while_analysis import loop_of, trip_count
from xla_server.passes.loops.while_hoisting import WhileHoisting
from xla_server.passes.loops.while_simplifier import WhileSimplifier
from xla_server.passes.loops.while_state import WhileState
from xla_server.passes.simplify.conditional_simplifier import ConditionalSimplifier
from xla_server.passes.simplify.constant_folding import ConstantFolding
from xla_server.passes.simplify.tuple_simplifier import TupleSimplifier


def _loop(
    body: str,
    *,
    start: int = 0,
    step: str = "add(i, one)",
    limit: str = "constant(3)",
    direction: str = "LT",
    result: str = "ROOT last = f32[4] get-tuple-element(loop), index=1",
    kind: str = "s32",
) -> HloModule:
    """A loop over (i, v, w, limit) whose body is lines that define next_v, and may read i, v, w."""
    state = f"({kind}[], f32[4], f32[4], {kind}[])"
    test_limit = "get-tuple-element(s), index=3" if limit == "state" else limit
    return imported(f"""HloModule m
body {{ state = {state} parameter(0)
  i = {kind}[] get-tuple-element(state), index=0
  v = f32[4] get-tuple-element(state), index=1
  w = f32[4] get-tuple-element(state), index=2
  n = {kind}[] get-tuple-element(state), index=3
  one = {kind}[] constant(1)
  next = {kind}[] {step}
  {body}
  ROOT new = {state} tuple(next, next_v, w, n) }}
condition {{ s = {state} parameter(0)
  c = {kind}[] get-tuple-element(s), index=0
  limit = {kind}[] {test_limit}
  ROOT less = pred[] compare(c, limit), direction={direction} }}
ENTRY e {{ x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  start = {kind}[] constant({start})
  end = {kind}[] constant(3)
  begin = {state} tuple(start, x, y, end)
  loop = {state} while(begin), condition=condition, body=body
  {result} }}
""")


ADD_W = "next_v = f32[4] add(v, w)"


def _while(module: HloModule) -> HloInstruction:
    return next(i for i in module.entry.instructions if i.opcode is Opcode.WHILE)


COUNTS: dict[str, tuple[dict[str, Any], int | None]] = {
    "three": ({}, 3),
    "from the state": ({"limit": "state"}, 3),
    "none": ({"start": 5}, 0),
    "one": ({"start": 2}, 1),
    "inclusive": ({"direction": "LE"}, 4),
    "by two": ({"step": "add(one, i)", "limit": "constant(4)"}, 4),
    "down": (
        {"start": 3, "step": "subtract(i, one)", "limit": "constant(0)", "direction": "GT"},
        3,
    ),
    "down to": (
        {"start": 3, "step": "subtract(i, one)", "limit": "constant(0)", "direction": "GE"},
        4,
    ),
    "until equal": ({"direction": "NE"}, 3),
    "never equal": ({"direction": "NE", "start": 4}, None),
    "the wrong way": ({"step": "subtract(i, one)"}, None),
    "unsigned": ({"kind": "u8"}, 3),
    "past the type": ({"kind": "u8", "limit": "constant(255)", "direction": "LE"}, None),
    "not a counter": ({"step": "multiply(i, i)"}, None),
}


@pytest.mark.parametrize("name", COUNTS)
def test_trip_counts(name: str) -> None:
    changes, expected = COUNTS[name]
    loop = loop_of(_while(_loop(ADD_W, **changes)))
    assert loop is not None
    assert trip_count(loop) == expected


@pytest.mark.parametrize(("start", "adds"), [(5, 0), (2, 2), (0, 6)])
def test_few_iterations_are_unrolled(start: int, adds: int) -> None:
    after = rewritten(_loop(ADD_W, start=start), WhileSimplifier(TARGET), TupleSimplifier())
    assert opcodes(after).get("while", 0) == 0
    assert len(after.computations) == 1
    # Each iteration keeps the sum that is used.
    assert opcodes(after).get("add", 0) == adds // 2


def test_many_iterations_stay() -> None:
    passed(_loop(ADD_W, limit="constant(9)"), WhileSimplifier(TARGET), fires=False)


def test_a_body_with_effects_stays() -> None:
    body = "next_v = f32[4] add(v, w)\n  state.1 = u64[2] rng-get-and-update-state(), delta=1"
    passed(_loop(body), WhileSimplifier(TARGET), fires=False)


def test_the_state_loses_what_is_constant_or_only_handed_on() -> None:
    # The limit is written into the condition; w is read in the loop and stays.
    assert len(_while(rewritten(_loop(ADD_W, limit="state"), WhileState())).shape.tuple_shapes) == 3


def test_the_state_loses_unused_elements() -> None:
    before = _loop(ADD_W, result="ROOT last = s32[] get-tuple-element(loop), index=0")
    assert len(_while(rewritten(before, WhileState())).shape.tuple_shapes) == 1


def test_what_stays_the_same_is_read_from_before_the_loop() -> None:
    before = _loop(
        ADD_W,
        result="a = f32[4] get-tuple-element(loop), index=1\n"
        "  b = f32[4] get-tuple-element(loop), index=2\n"
        "  ROOT last = (f32[4], f32[4]) tuple(a, b)",
    )
    after = rewritten(before, WhileState(), TupleSimplifier())
    assert after.entry.root.operands[1] is after.entry.parameters[1]


def test_a_state_that_is_read_whole_stays_whole() -> None:
    before = _loop(ADD_W, result="ROOT last = (s32[], f32[4], f32[4], s32[]) copy(loop)")
    rewritten(before, WhileState())


def test_a_state_without_anything_to_lose_stays() -> None:
    module = _loop(ADD_W, limit="state")
    after = passed(module, WhileState(), TupleSimplifier())
    passed(after, WhileState(), fires=False)


def test_bodies_of_two_loops_are_left_alone() -> None:
    module = _loop(
        ADD_W,
        result="more = (s32[], f32[4], f32[4], s32[]) while(loop), condition=condition, body=body\n"
        "  ROOT last = s32[] get-tuple-element(more), index=0",
    )
    passed(module, WhileState(), fires=False)
    passed(module, WhileHoisting(TARGET), fires=False)


INVARIANT = """square = f32[4] multiply(w, w)
  wide = f32[4,4] broadcast(square), dimensions={0}
  zero = f32[] constant(0)
  two = f32[] constant(2)
  half = f32[4] broadcast(two), dimensions={}
  root = f32[4] power(square, half)
  next_v = f32[4] add(v, root)"""


def test_invariant_work_moves_out() -> None:
    before = _loop(INVARIANT)
    after = rewritten(before, WhileHoisting(TARGET))
    (loop,) = (i for i in after.entry.instructions if i.opcode is Opcode.WHILE)
    assert opcodes(after, loop.called[0]).get("power", 0) == 0
    assert opcodes(after)["power"] == opcodes(after)["multiply"] == 1


def test_what_is_not_worth_its_memory_stays() -> None:
    body = """wide = f32[4,2000] broadcast(w), dimensions={0}
  many = f32[4,2000] negate(wide)
  zero = f32[] constant(0)
  spread = f32[4,2000] broadcast(v), dimensions={0}
  both = f32[4,2000] multiply(many, spread)
  cut = f32[4,1] slice(both), slice={[0:4], [7:8]}
  next_v = f32[4] reshape(cut)"""
    passed(
        _loop(body.replace("negate(wide)", "broadcast(w), dimensions={0}")),
        WhileHoisting(TARGET),
        fires=False,
    )
    assert_kept(_loop(body), passed(_loop(body), WhileHoisting(TARGET)))


def test_what_changes_stays() -> None:
    passed(_loop(ADD_W), WhileHoisting(TARGET), fires=False)


def _conditional(choice: str, first: str, second: str, more: str = "") -> HloModule:
    return imported(f"""HloModule m
first {{ a = f32[4] parameter(0)
  {first} }}
second {{ b = f32[4] parameter(0)
  {second} }}
ENTRY e {{ x = f32[4] parameter(0)
  p = pred[] parameter(1)
  n = s32[] parameter(2)
  known = s32[] constant(7)
  yes = pred[] constant(true)
  ROOT r = f32[4] conditional({choice}, x, x), {more or "branch_computations={first, second}"} }}
""")


NEGATE, DOUBLE = "ROOT r.a = f32[4] negate(a)", "ROOT r.b = f32[4] add(b, b)"
SORT = "ROOT r.a = f32[4] fft(a), fft_type=FFT, fft_length={4}"
OF_PREDICATE = "true_computation=first, false_computation=second"


@pytest.mark.parametrize(
    ("choice", "more", "expected"),
    [("known", "", "add"), ("yes", OF_PREDICATE, "negate")],
)
def test_a_known_choice_is_called(choice: str, more: str, expected: str) -> None:
    before = _conditional(choice, NEGATE, DOUBLE, more)
    assert opcodes(rewritten(before, ConditionalSimplifier(TARGET))) == {expected: 1}


@pytest.mark.parametrize(("choice", "more"), [("n", ""), ("p", OF_PREDICATE)])
@pytest.mark.parametrize("number", [-1, 0, 1, 5])
def test_tiny_branches_are_selected(choice: str, more: str, number: int) -> None:
    before = _conditional(choice, NEGATE, DOUBLE, more)
    after = passed(before, ConditionalSimplifier(TARGET), ConstantFolding())
    assert opcodes(after)["select"] == 1
    arguments = [np.array([1, -2, 3, 0], np.float32), np.bool_(number == 0), np.int32(number)]
    assert_kept(before, after, [np.asarray(a) for a in arguments])


def test_large_branches_stay() -> None:
    first = "wide = f32[4,40] broadcast(a), dimensions={0}\n  z = f32[] constant(0)\n"
    first += "  cut = f32[4,1] slice(wide), slice={[0:4], [0:1]}\n  ROOT r.a = f32[4] reshape(cut)"
    passed(
        _conditional("p", first, DOUBLE, OF_PREDICATE), ConditionalSimplifier(TARGET), fires=False
    )


def test_branches_that_give_tokens_stay() -> None:
    text = """
first { ROOT a = token[] parameter(0) }
second { ROOT b = token[] parameter(0) }
ENTRY e { p = pred[] parameter(0)
  t = token[] after-all()
  ROOT c = token[] conditional(p, t, t), true_computation=first, false_computation=second }"""
    passed(imported(f"HloModule m{text}"), ConditionalSimplifier(TARGET), fires=False)
