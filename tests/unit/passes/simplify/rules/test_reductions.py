"""Reductions of repeated elements are products, or the elements themselves."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits, run_on_xla
from tests.corpus.hlo_text import parse_hlo
from tests.unit.codegen.compiled import interpreted, on_cpu
from tests.unit.passes.passing import imported, opcodes, passed, rewritten
from xla_contract.types.element_type import ElementType as E
from xla_server.ir.module import HloModule
from xla_server.passes.framework.fixpoint import Fixpoint
from xla_server.passes.simplify.algebraic_simplifier import AlgebraicSimplifier

SIMPLIFY = Fixpoint("simplify", (AlgebraicSimplifier(),))


def text(
    kind: str,
    sizes: str = "4",
    mapped: str = "0",
    *,
    opcode: str = "add",
    initial: str = "constant(0)",
    repeated: str = "4,30",
    reduced: str = "1",
    result: str = "4",
) -> str:
    return f"""HloModule m
    f {{ a = {kind}[] parameter(0)
      b = {kind}[] parameter(1)
      ROOT r = {kind}[] {opcode}(a, b) }}
    ENTRY e {{ x = {kind}[{sizes}] parameter(0)
      z = {kind}[] {initial}
      w = {kind}[{repeated}] broadcast(x), dimensions={{{mapped}}}
      ROOT r = {kind}[{result}] reduce(w, z), dimensions={{{reduced}}}, to_apply=f }}"""


GIVEN = "parameter(1)"
FIRES: tuple[tuple[str, set[str]], ...] = (
    (text("f32"), {"multiply", "add"}),
    (text("f64", "", "", repeated="7", reduced="0", result=""), {"multiply", "add"}),
    (
        text("f32", repeated="2,4,30", mapped="1", reduced="2", result="2,4"),
        {"multiply", "add", "broadcast"},
    ),
    (text("s32", initial=GIVEN), {"multiply", "add"}),
    (text("s8", initial=GIVEN, repeated="4,300"), {"multiply", "add"}),
    (text("s8", initial=GIVEN, repeated="4,128"), {"multiply", "add"}),
    (text("u8", initial=GIVEN, repeated="4,511"), {"multiply", "add"}),
    (text("s32", initial=GIVEN, reduced="0,1", result=""), {"reduce", "multiply", "add"}),
    (text("f32", opcode="maximum", initial=GIVEN), {"maximum"}),
    (text("f32", opcode="minimum", initial=GIVEN, reduced="0,1", result=""), {"reduce"}),
    (text("pred", opcode="or", initial=GIVEN), {"or"}),
)


@pytest.mark.parametrize("case", FIRES)
def test_fires(case: tuple[str, set[str]]) -> None:
    whole, expected = case
    after = rewritten(imported(whole), SIMPLIFY, relative=1e-6)
    assert expected <= set(opcodes(after))
    assert ("reduce" in opcodes(after)) == ("reduce" in expected)
    # Sums of the interpreter are kept in f64, so products have the same bits but for ties.


STAYS = {
    "floats that are summed, too": text("f32", reduced="0,1", result=""),
    "a start that is added": text("f32", initial="constant(1)"),
    "a start that is not known": text("f32", initial=GIVEN),
    "more elements than f32 counts": text("f32", repeated="4,16777217"),
    "narrow floats, which are widened before": text("f16"),
    "complex numbers": text("c64", initial="constant((0, 0))"),
    "products": text("f32", opcode="multiply"),
    "no element": text("s32", repeated="4,0"),
    "dimensions that are not repeated": text("f32", reduced="0", result="30"),
}


@pytest.mark.parametrize("name", STAYS)
def test_does_not_fire(name: str) -> None:
    passed(imported(STAYS[name]), AlgebraicSimplifier(), fires=False)


@pytest.mark.parametrize("kind", [E.F32, E.F64, E.F16, E.BF16], ids=lambda kind: kind.text)
def test_sums_of_equal_numbers_are_rounded_once(kind: E) -> None:
    module = imported(text(kind.text, "2000", "0", repeated="2000,30", result="2000"))
    x = np.random.default_rng(1).standard_normal(2000)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e4]
    x[: len(special)] = special
    given = x.astype(kind.dtype)
    with np.errstate(all="ignore"):
        exact = (given.astype(np.longdouble) * 30).astype(np.float64).astype(kind.dtype)
    # A sum that begins at 0 is no -0.
    exact = exact + np.zeros((), kind.dtype)
    (result,) = on_cpu(module, [given])
    assert_equal_bits(result, exact)
    (expected,) = interpreted(module, [given])
    if kind is E.F64:
        np.testing.assert_allclose(result, expected, rtol=1e-14)
    else:
        assert_equal_bits(result, expected)


def standard_deviation(count: int) -> str:
    return f"""HloModule m
    f {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = f32[] add(a, b) }}
    ENTRY e {{ x = f32[] parameter(0)
      z = f32[] constant(0)
      n = f32[] constant({count})
      w = f32[{count}] broadcast(x), dimensions={{}}
      sum = f32[] reduce(w, z), dimensions={{0}}, to_apply=f
      mean = f32[] divide(sum, n)
      means = f32[{count}] broadcast(mean), dimensions={{}}
      distances = f32[{count}] subtract(w, means)
      squares = f32[{count}] multiply(distances, distances)
      total = f32[] reduce(squares, z), dimensions={{0}}, to_apply=f
      variance = f32[] divide(total, n)
      ROOT r = f32[] sqrt(variance) }}"""


@pytest.mark.parametrize("count", [30, 590, 4999])
def test_the_deviation_of_equal_numbers_is_that_of_xla(count: int) -> None:
    whole = standard_deviation(count)
    module: HloModule = imported(whole)
    for number in (1.1, 0.3, 123.456, -7e-3):
        x: Any = np.float32(number)
        (theirs,) = run_on_xla(parse_hlo(whole), [x])
        (ours,) = on_cpu(module, [x])
        assert ours <= theirs
