"""Updates of most of an array, computed by a loop over all of it."""

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import copied_bytes
from tests.unit.passes.passing import leaves, opcodes, passed, rewritten, stated
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk
from xla_server.evaluator.interpret import evaluate
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module

ROWS, COLUMNS = 40, 60


def updated(rows: int, columns: int, start: str = "one") -> HloModule:
    box = f"f32[{rows},{columns}]"
    return stated(
        [f"f32[{ROWS},{COLUMNS}]", "s32[]"],
        f"f32[{ROWS},{COLUMNS}] dynamic-update-slice(x0, e, {start}, one)",
        "one = s32[] constant(1)",
        f"part = {box} slice(x0), slice={{[0:{rows}], [{COLUMNS - columns}:{COLUMNS}]}}",
        f"e = {box} exponential(part)",
    )


def test_one_loop_computes_the_part_and_copies_the_rest() -> None:
    assert opcodes(rewritten(updated(38, 58), LoopFusion(TARGET))) == {"fusion": 1}


@pytest.mark.parametrize(
    "module",
    [updated(20, 58), updated(38, 40), updated(38, 58, "x1")],
    ids=["rows", "columns", "start"],
)
def test_small_parts_and_unknown_starts_are_stored(module: HloModule) -> None:
    assert opcodes(rewritten(module, LoopFusion(TARGET)))["dynamic-update-slice"] == 1


def test_it_is_stored_for_its_readers() -> None:
    module = stated(
        [f"f32[{ROWS},{COLUMNS}]"],
        f"f32[{ROWS},{COLUMNS}] negate(d)",
        "one = s32[] constant(1)",
        "part = f32[38,58] slice(x0), slice={[0:38], [2:60]}",
        f"d = f32[{ROWS},{COLUMNS}] dynamic-update-slice(x0, part, one, one)",
    )
    assert opcodes(rewritten(module, LoopFusion(TARGET))) == {"fusion": 1, "negate": 1}


def stepped(start: int, *, kept: bool = False) -> HloModule:
    """A loop that sets rows from 1 on to the exponential of rows from `start` on.

    The state before is `kept` as another part of the state.
    """
    state = f"(s32[], f32[{ROWS},{COLUMNS}], f32[{ROWS},{COLUMNS}])"
    return parse_module(f"""HloModule m

body {{
  state = {state} parameter(0)
  i = s32[] get-tuple-element(state), index=0
  a = f32[{ROWS},{COLUMNS}] get-tuple-element(state), index=1
  b = f32[{ROWS},{COLUMNS}] get-tuple-element(state), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  part = f32[38,{COLUMNS}] slice(a), slice={{[{start}:{start + 38}], [0:{COLUMNS}]}}
  e = f32[38,{COLUMNS}] exponential(part)
  d = f32[{ROWS},{COLUMNS}] dynamic-update-slice(a, e, one, zero)
  ROOT new = {state} tuple(next, d, {"a" if kept else "b"})
}}

condition {{
  state.1 = {state} parameter(0)
  i.1 = s32[] get-tuple-element(state.1), index=0
  limit = s32[] constant(3)
  ROOT less = pred[] compare(i.1, limit), direction=LT
}}

ENTRY main {{
  x = f32[{ROWS},{COLUMNS}] parameter(0)
  zero.2 = s32[] constant(0)
  begin = {state} tuple(zero.2, x, x)
  ROOT loop = {state} while(begin), condition=condition, body=body
}}
""")


@pytest.mark.parametrize(
    ("module", "is_fused"),
    [(stepped(1), True), (stepped(2), False), (stepped(2, kept=True), True)],
    ids=["same rows", "other rows", "old state kept"],
)
def test_a_loop_overwrites_its_state_in_place(module: HloModule, is_fused: bool) -> None:
    after = passed(module, LoopFusion(TARGET))
    body = next(each for each in after.computations if each.name.startswith("body"))
    assert (body.root.operands[1].opcode.value == "fusion") is is_fused
    before = leaves(evaluate(module, [x := np.full((ROWS, COLUMNS), -1, np.float32)]))
    np.testing.assert_array_equal(leaves(evaluate(after, [x]))[1], before[1])


def test_nothing_is_copied_in_the_loop() -> None:
    compilation = compile_module(stepped(1))
    names = [part.name for part in compilation.code.thunks if isinstance(part, KernelThunk)]
    assert all(name.startswith("fusion") for name in names)
    # The argument and the first counter are copied to the initial state.
    assert copied_bytes(compilation.code, compilation.assignment) <= 4 * ROWS * COLUMNS + 4
