"""Planned bytes of an evaluation, held against the bytes that it takes."""

import tracemalloc

import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from xla_server.evaluator.interpret import evaluate
from xla_server.evaluator.peak_memory import temporary_bytes
from xla_server.evaluator.plan import PlanCache
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

SIZE = 4 << 18
"""Bytes of an array."""

ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
"""
LESS = """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
"""
ODD = """odd { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, b)
  d = f32[] tanh(c)
  ROOT r = f32[] add(a, d) }
"""


def module(body: str, before: str = "") -> HloModule:
    parameters = "x = f32[512,512] parameter(0)\n y = f32[512,512] parameter(1)\n"
    lines = "\n ".join(body.split("; "))
    return import_module(
        parse_hlo(
            f"HloModule m\n{before}ENTRY main {{ {parameters} z = f32[] constant(0)\n {lines} }}"
        )
    )


def temporary(body: str, before: str = "") -> int:
    return temporary_bytes(module(body, before), PlanCache())


@pytest.mark.parametrize(
    ("body", "arrays"),
    [
        ("ROOT r = f32[512,512] add(x, y)", 0),
        ("a = f32[512,512] add(x, y); ROOT r = f32[512,512] multiply(a, a)", 1),
        # A chain keeps one array beside the one that is made, however long it is.
        (
            "a = f32[512,512] add(x, y); b = f32[512,512] add(a, y); c = f32[512,512] add(b, y)"
            "; ROOT r = f32[512,512] add(c, y)",
            1,
        ),
        # All three are there when the last one is read.
        (
            "a = f32[512,512] add(x, y); b = f32[512,512] add(x, y); c = f32[512,512] add(x, y)"
            "; d = f32[512,512] add(a, b); ROOT r = f32[512,512] add(c, d)",
            3,
        ),
        # Views and parameters take nothing, a view of a value keeps it.
        ("t = f32[512,512] transpose(x), dimensions={1,0}; ROOT r = f32[512,512] add(t, y)", 0),
        (
            "a = f32[512,512] add(x, y); t = f32[512,512] transpose(a), dimensions={1,0}"
            "; b = f32[512,512] add(x, y); ROOT r = f32[512,512] add(t, b)",
            2,
        ),
        # An element keeps itself, not the others of its tuple.
        (
            "a = f32[512,512] add(x, y); b = f32[512,512] add(x, y)"
            "; t = (f32[512,512], f32[512,512]) tuple(a, b)"
            "; e = f32[512,512] get-tuple-element(t), index=0; c = f32[512,512] add(e, e)"
            "; ROOT r = f32[512,512] add(c, c)",
            1,
        ),
    ],
)
def test_values_count_from_their_making_to_their_last_use(body: str, arrays: int) -> None:
    assert temporary(body) == arrays * SIZE


STEP = """step { s = (s32[], f32[512,512], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  n = s32[] add(i, one)
  w = f32[512,512] get-tuple-element(s), index=1
  v = f32[512,512] get-tuple-element(s), index=2
  u = f32[512,512] add(v, w)
  ROOT r = (s32[], f32[512,512], f32[512,512]) tuple(n, w, u) }
again { s = (s32[], f32[512,512], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT r = pred[] compare(i, ten), direction=LT }
"""
LOOP = (
    "n = s32[] constant(0); s = (s32[], f32[512,512], f32[512,512]) tuple(n, x, y)"
    "; l = (s32[], f32[512,512], f32[512,512]) while(s), condition=again, body=step"
    "; ROOT r = f32[512,512] get-tuple-element(l), index=2"
)


def test_a_loop_has_its_state_twice_but_for_what_it_only_hands_on() -> None:
    assert SIZE <= temporary(LOOP, STEP) < SIZE + 100


def test_calls_and_branches_take_what_they_call_takes() -> None:
    called = """twice { a = f32[512,512] parameter(0)
  b = f32[512,512] add(a, a)
  c = f32[512,512] add(b, b)
  ROOT d = f32[512,512] add(b, c) }
same { ROOT a = f32[512,512] parameter(0) }
"""
    call = "a = f32[512,512] call(x), to_apply=twice; ROOT r = f32[512,512] add(a, y)"
    assert temporary(call, called) == 2 * SIZE
    # A value that is only handed through belongs to the caller.
    assert temporary(call.replace("twice", "same"), called) == 0
    branches = (
        "p = pred[] constant(true); a = f32[512,512] conditional(p, x, y), "
        "true_computation=same, false_computation=twice; ROOT r = f32[512,512] add(a, y)"
    )
    assert temporary(branches, called) == 2 * SIZE


PROGRAMS = {
    "clamp": ("ROOT r = f32[512,512] clamp(x, y, x)", ""),
    "convert": ("ROOT r = s32[512,512] convert(x)", ""),
    "total order": (
        "ROOT r = pred[512,512] compare(x, y), direction=LT, type=TOTALORDER",
        "",
    ),
    "maximum": ("ROOT r = f32[512,512] maximum(x, y)", ""),
    "logistic": ("ROOT r = f32[512,512] logistic(x)", ""),
    "sort": ("ROOT r = f32[512,512] sort(x), dimensions={1}, to_apply=less", LESS),
    "map": ("ROOT r = f32[512,512] map(x, y), dimensions={0,1}, to_apply=odd", ODD),
    "reduce": ("ROOT r = f32[512] reduce(x, z), dimensions={1}, to_apply=odd", ODD),
    "window": (
        "ROOT r = f32[510,510] reduce-window(x, z), window={size=3x3}, to_apply=odd",
        ODD,
    ),
    "scatter": (
        "i = s32[512,1] iota(), iota_dimension=0; ROOT r = f32[512,512] scatter(x, i, y), "
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=add",
        ADD,
    ),
    "convolution": (
        "w = f32[1,64,64,64] reshape(x); f = f32[9,512] slice(y), slice={[0:9],[0:512]}"
        "; k = f32[3,3,64,8] reshape(f); ROOT r = f32[1,8,62,62] convolution(w, k), "
        "window={size=3x3}, dim_labels=bf01_01io->bf01",
        "",
    ),
    "loop": (LOOP, STEP),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_evaluation_takes_more_than_its_plan_says(name: str) -> None:
    program = module(*PROGRAMS[name])
    x = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    evaluate(program, [x, x])
    tracemalloc.start()
    try:
        evaluate(program, [x, x])
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = temporary_bytes(program, PlanCache()) + program.entry.root.shape.byte_size
    assert taken <= said + SIZE // 4
