"""Operations that call computations on scalars, as loops: when, and what they give."""

from typing import Any

import pytest

from tests.corpus import hlo_programs
from tests.unit.passes.passing import assert_kept, imported, opcodes, passed, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.rules import RULES
from xla_server.ir.module import HloModule
from xla_server.passes.scalar_loops.element_calls import TRACED, ScalarComputations
from xla_server.passes.scalar_loops.element_loops import ElementLoops

CALLERS = {"map", "reduce", "reduce-window", "scatter", "select-and-scatter", "sort"}

FURTHER: dict[str, tuple[Any, ...]] = {
    "windows_below_zero": (
        ["f32[5]", "f32[3]"],
        "f32[5] select-and-scatter(below, x1, zero), window={size=2 stride=2 pad=0_1}, "
        "select=ge, scatter=add",
        "positive = f32[5] exponential(x0)",
        "below = f32[5] negate(positive)",
        "zero = f32[] constant(0)",
    ),
    "sort_of_7": (["f32[7]"], "f32[7] sort(x0), dimensions={0}, to_apply=ge"),
    "sort_of_8": (["f32[8,3]"], "f32[8,3] sort(x0), dimensions={0}, to_apply=ge"),
    "scatter_batched_behind_the_index": (
        ["f32[3,5]", "s32[1,4,3]", "f32[4,3]"],
        "f32[3,5] scatter(x0, x1, x2), update_window_dims={}, inserted_window_dims={1}, "
        "input_batching_dims={0}, scatter_indices_batching_dims={2}, "
        "scatter_dims_to_operand_dims={1}, index_vector_dim=0, to_apply=mul",
    ),
}
"""Programs that show what those of the corpus do not."""

PROGRAMS = hlo_programs.PROGRAMS | FURTHER

BODY = """
f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  %s
  ROOT r = f32[] maximum(a, y)
}
"""
REDUCED = "f32[] reduce(x0, z), dimensions={0}, to_apply=f"


def reduction(*lines: str) -> HloModule:
    """A reduction by f, which makes y of b."""
    text = hlo_programs.program(["f32[7]"], REDUCED)
    return imported(text.replace("ENTRY", BODY % "\n  ".join(lines) + "ENTRY"))


def with_callers() -> list[str]:
    return [
        name
        for name, (_, root, *_) in PROGRAMS.items()
        # This one has more elements than there is time for.
        if name != "reduce" and any(f" {opcode}(" in root for opcode in CALLERS)
    ]


def test_what_loops_can_hold_is_what_there_are_rules_for() -> None:
    """Calls are inlined, or called by rows; elements of tuples need no rule."""
    assert {*RULES} - {Opcode.FUSION} == TRACED - {Opcode.GET_TUPLE_ELEMENT}


@pytest.mark.parametrize("name", with_callers())
def test_results_are_those_of_the_evaluators(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program of the corpus, as if no kernel could hold what it calls."""
    parameters, root, *before = PROGRAMS[name]
    module = stated(parameters, root, *before)
    passed(module, ElementLoops(), fires=False)
    monkeypatch.setattr(ScalarComputations, "fits_loops", lambda self, called: False)
    after = passed(module, ElementLoops())
    assert not CALLERS & opcodes(after).keys()
    # Evaluators sum known reducers in more digits.
    relative = 2e-2 if "bf16" in name else 1e-5
    assert_kept(module, after, hlo_programs.arguments(parameters), relative=relative)


@pytest.mark.parametrize(
    "lines",
    [
        ["y = f32[] opt-barrier(b)"],
        ["t = token[] after-all()", "y = f32[] add-dependency(b, t)"],
        [
            "t = (f32[], f32[]) tuple(b, b)",
            "u = (f32[], f32[]) opt-barrier(t)",
            "y = f32[] get-tuple-element(u), index=1",
        ],
    ],
    ids=["barrier", "dependency", "barrier of a tuple"],
)
def test_what_means_nothing_for_scalars_is_dropped(lines: list[str]) -> None:
    before = reduction(*lines)
    after = rewritten(before, ElementLoops())
    assert opcodes(after)["reduce"] == 1
    (reduce,) = (i for i in after.entry.instructions if i.opcode is Opcode.REDUCE)
    assert opcodes(after, reduce.called[0]) == {"maximum": 1}


def test_a_formula_of_arrays_stays_where_loops_hold_it() -> None:
    lines = ["w = f32[3] broadcast(b), dimensions={}", "z = f32[] constant(0)"]
    lines += ["y = f32[] reduce(w, z), dimensions={0}, to_apply=max"]
    passed(reduction(*lines), ElementLoops(), fires=False)


def test_neighbours_are_combined_and_the_rest_of_an_odd_number_kept() -> None:
    lines = ["s = f32[1] reshape(b)", "u = f32[1] sort(s), dimensions={0}, to_apply=lt"]
    text = hlo_programs.program(["f32[7]"], REDUCED)
    less = """lt {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT less = pred[] compare(p, q), direction=LT
}
"""
    body = less + BODY % "\n  ".join([*lines, "y = f32[] reshape(u)"])
    after = rewritten(imported(text.replace("ENTRY", body + "ENTRY")), ElementLoops())
    # Seven become four and two; where there is one pair it takes no loop.
    assert opcodes(after)["while"] == 2
    assert opcodes(after)["concatenate"] == 1
