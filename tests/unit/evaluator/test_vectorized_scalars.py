"""Computations on scalars over arrays: lifted and one by one must agree."""

import threading

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import CancelledError
from xla_server.evaluator.interpret import evaluate
from xla_server.evaluator.vectorized_scalars import can_lift
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.importer import import_module

MAPPED = """
HloModule m
halve { h = f32[] parameter(0)
  half = f32[] constant(0.5)
  ROOT r = f32[] multiply(h, half) }
negative { q = f32[] parameter(0)
  ROOT n = f32[] negate(q) }
lifts { a = f32[] parameter(0)
  b = f32[] call(a), to_apply=halve
  pair = (f32[], f32[]) tuple(a, b)
  c = f32[] get-tuple-element(pair), index=1
  one = f32[1] reshape(c)
  two = f32[] reshape(one)
  ROOT d = f32[] add(a, LAST) }
chooses { s = f32[] parameter(0)
  zero = f32[] constant(0)
  below = pred[] compare(s, zero), direction=LT
  ROOT t = f32[] conditional(below, s, s), true_computation=negative, false_computation=halve }
ENTRY main { x = f32[2,3] parameter(0)
  ROOT m = f32[2,3] map(x), dimensions={0,1}, to_apply=WHICH }
"""

X = np.array([[1, -2, 3], [-4, 5, 0]], np.float32)


@pytest.mark.parametrize(
    ("which", "last", "lifted", "wanted"),
    [
        ("lifts", "c", False, X * 1.5),
        ("chooses", "c", False, np.where(X < 0, -X, X / 2)),
    ],
)
def test_maps(which: str, last: str, lifted: bool, wanted: np.ndarray) -> None:
    module = import_module(parse_hlo(MAPPED.replace("WHICH", which).replace("LAST", last)))
    assert can_lift(module.entry.root.called[0]) is lifted
    np.testing.assert_array_equal(evaluate_checked(module, [X]), wanted)


def test_calls_and_tuples_of_scalars_are_lifted() -> None:
    text = "\n".join(
        line for line in MAPPED.splitlines() if "one =" not in line and "two =" not in line
    )
    module = import_module(parse_hlo(text.replace("WHICH", "lifts").replace("LAST", "c")))
    assert can_lift(module.entry.root.called[0])
    np.testing.assert_array_equal(evaluate_checked(module, [X]), X * 1.5)


def doubling_reducer(depth: int) -> str:
    """A reducer of which each computation calls the next one down twice."""
    text = ["HloModule doubling"]
    for level in range(depth):
        inside = f"call(a{level}, b{level}), to_apply=step{level - 1}" if level else "add(a0, b0)"
        text.append(
            f"step{level} {{ a{level} = f32[] parameter(0)\n  b{level} = f32[] parameter(1)\n"
            f"  x{level} = f32[] {inside}\n  y{level} = f32[] {inside}\n"
            f"  ROOT r{level} = f32[] subtract(x{level}, y{level}) }}"
        )
    text.append(
        "ENTRY main { v = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
        f"  ROOT s = f32[] reduce(v, z), dimensions={{0}}, to_apply=step{depth - 1} }}"
    )
    return "\n".join(text)


def test_a_reducer_of_exponential_work_can_be_cancelled() -> None:
    module = import_module(parse_hlo(doubling_reducer(40)))
    cancellation = Cancellation()
    timer = threading.Timer(0.2, cancellation.cancel)
    timer.start()
    with pytest.raises(CancelledError):
        evaluate(
            module, [np.ones(4, np.float32)], options=ExecuteOptions(cancellation=cancellation)
        )
    timer.join()
