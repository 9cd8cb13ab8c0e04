"""Reductions of narrow floats by any formula that rounds are done in f32 and rounded once."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.conformance.oracle import by_jax
from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.codegen.compiled import interpreted, on_cpu
from tests.unit.ops.reduction.test_wide_reducer import LOGADDEXP
from tests.unit.passes.passing import imported, opcodes, passed
from xla_contract.stubs import hlo_pb2
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.passes.canonicalize.float_widening import FloatWidening

DTYPE = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def reduction(kind: str, body: str, size: int = 2000) -> HloModule:
    return imported(
        f"""HloModule m
        f {{ a = {kind}[] parameter(0)
          b = {kind}[] parameter(1)
          {body.replace("{0}", kind)} }}
        ENTRY e {{ x = {kind}[{size}] parameter(0)
          z = {kind}[] parameter(1)
          ROOT r = {kind}[] reduce(x, z), dimensions={{0}}, to_apply=f }}"""
    )


@pytest.mark.parametrize("kind", DTYPE)
def test_a_formula_is_reduced_in_f32(kind: str) -> None:
    before = reduction(kind, LOGADDEXP)
    after = passed(before, FloatWidening(TARGET))
    assert opcodes(after) == {"convert": 3, "reduce": 1}
    (reduce,) = (i for i in after.entry.instructions if str(i.opcode) == "reduce")
    assert {str(i.shape) for i in (reduce, reduce.called[0].root)} == {"f32[]"}
    x = np.random.default_rng(1).standard_normal(2000).astype(DTYPE[kind])
    start = DTYPE[kind](-np.inf)
    exact = np.logaddexp.reduce(x.astype(np.float64))
    for (result,) in (on_cpu(before, [x, start]), interpreted(before, [x, start])):
        assert result == DTYPE[kind](exact)


def test_several_arrays_together() -> None:
    text = """HloModule m
    f { a = f16[] parameter(0)
      b = s32[] parameter(1)
      c = f16[] parameter(2)
      d = s32[] parameter(3)
      h = f16[] constant(1)
      p = f16[] multiply(c, h)
      s = f16[] add(a, p)
      t = f16[] subtract(s, h)
      n = s32[] add(b, d)
      ROOT r = (f16[], s32[]) tuple(t, n) }
    ENTRY e { x = f16[3000] parameter(0)
      y = s32[3000] parameter(1)
      z = f16[] parameter(2)
      k = s32[] constant(0)
      ROOT r = (f16[], s32[]) reduce(x, y, z, k), dimensions={0}, to_apply=f }"""
    before = imported(text)
    after = passed(before, FloatWidening(TARGET))
    assert [str(part) for part in after.entry.root.shape.tuple_shapes] == ["f16[]", "s32[]"]
    # Steps of 0.1 from 2000 on are lost in f16, whose units are 1 there.
    x = np.full(3000, 1.1, np.float16)
    y = np.arange(3000, dtype=np.int32)
    exact = 2000 + x.astype(np.float64).sum() - 3000
    for module in (before, after):
        total, count = interpreted(module, [x, y, np.float16(2000)])
        assert abs(float(total) - exact) <= 1
        assert count == y.sum()
    total, _ = on_cpu(before, [x, y, np.float16(2000)])
    assert abs(float(total) - exact) <= 1


@pytest.mark.parametrize(
    "body", ["ROOT r = {0}[] maximum(a, b)", "s = {0}[] abs(b)\n ROOT r = {0}[] minimum(a, s)"]
)
def test_what_rounds_nothing_stays(body: str) -> None:
    passed(reduction("f16", body), FloatWidening(TARGET), fires=False)


RUNNING: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "forwards": (
        lambda x: jax.lax.cumlogsumexp(x),
        lambda x: np.logaddexp.accumulate(x),
    ),
    "backwards": (
        lambda x: jax.lax.cumlogsumexp(x, reverse=True),
        lambda x: np.logaddexp.accumulate(x[::-1])[::-1],
    ),
}


@pytest.mark.parametrize("kind", DTYPE)
@pytest.mark.parametrize("name", RUNNING)
def test_running_sums_of_exponentials_are_as_exact_as_those_of_xla(name: str, kind: str) -> None:
    function, exact_of = RUNNING[name]
    x = np.random.default_rng(2).standard_normal(1595).astype(DTYPE[kind])
    exact = exact_of(x.astype(np.float64))
    proto = hlo_pb2.HloModuleProto.FromString(lower(function, jnp.asarray(x)))
    module = import_module(proto)
    (theirs,) = by_jax(function, [x])
    for (result,) in (on_cpu(module, [x]), interpreted(module, [x])):
        error = np.abs(result.astype(np.float64) - exact).max()
        assert error <= np.abs(theirs.astype(np.float64) - exact).max()
        assert error <= np.abs(exact).max() * float(ml_dtypes.finfo(DTYPE[kind]).eps)
