"""Work on repeated elements is done once."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits, run_on_xla
from tests.corpus.hlo_text import parse_hlo
from tests.unit.codegen.compiled import interpreted, on_cpu
from tests.unit.passes.passing import assert_kept, imported, opcodes, passed, stated
from xla_contract.types.element_type import ElementType as E
from xla_server.ir.module import HloModule
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE as COMPUTED
from xla_server.passes.framework.editor import copy_module
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
    reshaped: str = "",
) -> str:
    return f"""HloModule m
    f {{ a = {kind}[] parameter(0)
      b = {kind}[] parameter(1)
      ROOT r = {kind}[] {opcode}(a, b) }}
    ENTRY e {{ x = {kind}[{sizes}] parameter(0)
      z = {kind}[] {initial}
      w = {kind}[{repeated}] broadcast(x), dimensions={{{mapped}}}
      {f"v = {kind}[{reshaped}] reshape(w)" if reshaped else ""}
      ROOT r = {kind}[{result}] reduce({"v" if reshaped else "w"}, z),
        dimensions={{{reduced}}}, to_apply=f }}"""


def _rows(reshaped: str = "20,6", **words: str) -> str:
    """Four rows of six elements, each row five times, in a reshape that is reduced."""
    return text("f32", "4,6", "0,2", repeated="4,5,6", reshaped=reshaped, **words)


GIVEN = "parameter(1)"
FIRES: dict[str, tuple[str, set[str]]] = {
    "f32": (text("f32"), {"multiply", "add"}),
    "f64 of a scalar": (
        text("f64", "", "", repeated="7", reduced="0", result=""),
        {"multiply", "add"},
    ),
    "dimensions that stay repeated": (
        text("f32", repeated="2,4,30", mapped="1", reduced="2", result="2,4"),
        {"multiply", "add", "broadcast"},
    ),
    "s32 with any start": (text("s32", initial=GIVEN), {"multiply", "add"}),
    "a count beyond the range": (
        text("s8", initial=GIVEN, repeated="4,300"),
        {"multiply", "add"},
    ),
    "a count of half the range": (
        text("s8", initial=GIVEN, repeated="4,128"),
        {"multiply", "add"},
    ),
    "u8": (text("u8", initial=GIVEN, repeated="4,511"), {"multiply", "add"}),
    "integers that are summed, too": (
        text("s32", initial=GIVEN, reduced="0,1", result=""),
        {"reduce", "multiply"},
    ),
    "maximum": (text("f32", opcode="maximum", initial=GIVEN), {"maximum"}),
    "minimum of elements, too": (
        text("f32", opcode="minimum", initial=GIVEN, reduced="0,1", result=""),
        {"reduce"},
    ),
    "or": (text("pred", opcode="or", initial=GIVEN), {"or"}),
    "floats that are summed, too": (
        text("f32", reduced="0,1", result=""),
        {"reduce", "multiply"},
    ),
    "floats that are summed, too, in a reshape": (
        _rows(reduced="0", result="6"),
        {"reduce", "multiply"},
    ),
    "equal results": (text("f32", reduced="0", result="30"), {"reduce", "broadcast"}),
    "equal results of any computation": (
        text("f32", opcode="power", initial=GIVEN, reduced="0", result="30"),
        {"reduce", "broadcast"},
    ),
    "equal results of narrow floats": (
        text("bf16", reduced="0", result="30"),
        {"reduce", "broadcast"},
    ),
    "equal results, in a reshape": (_rows(reduced="1", result="20"), {"reduce", "broadcast"}),
    "elements in a reshape": (_rows(opcode="maximum", reduced="0", result="6"), {"reduce"}),
}


@pytest.mark.parametrize("name", FIRES)
def test_fires(name: str) -> None:
    whole, expected = FIRES[name]
    before = imported(whole)
    after = passed(before, SIMPLIFY)
    assert expected <= set(opcodes(after))
    assert ("reduce" in opcodes(after)) == ("reduce" in expected)
    # Sums of the interpreter are kept in f64, so products have the same bits but for ties.
    assert_kept(before, after, relative=1e-6)


STAYS = {
    "a start that is added": text("f32", initial="constant(1)"),
    "a start that is not known": text("f32", initial=GIVEN),
    "more elements than f32 counts": text("f32", repeated="4,16777217"),
    "narrow floats, which are widened before": text("f16"),
    "complex numbers": text("c64", initial="constant((0, 0))"),
    "products": text("f32", opcode="multiply"),
    "no element": text("s32", repeated="4,0"),
    "a reshape that divides what is repeated": _rows("15,8", reduced="0", result="8"),
    "equal results, in a reshape that divides them": _rows("15,8", reduced="1", result="15"),
}


@pytest.mark.parametrize("name", STAYS)
def test_does_not_fire(name: str) -> None:
    passed(imported(STAYS[name]), AlgebraicSimplifier(), fires=False)


A = "a = f32[4,6] broadcast(x0), dimensions={0}"
B = "b = f32[4,6] broadcast(x1), dimensions={0}"
ELEMENTWISE: dict[str, tuple[list[str], ...]] = {
    "once": (["f32[4]", "f32[4]"], ["f32[4,6] add(a, b)", A, B]),
    "with one number": (["f32[4]", "f32[]"], ["f32[4,6] add(a, b)", A, B.replace("{0}", "{}")]),
    "with one condition": (
        ["f32[4]", "f32[4]", "pred[]"],
        ["f32[4,6] select(x2, a, b)", A, B],
    ),
    "in a reshape": (
        ["f32[4]"],
        ["f32[24] exponential(r)", A, "r = f32[24] reshape(a)"],
    ),
}
EACH: dict[str, tuple[list[str], ...]] = {
    "repeated differently": (
        ["f32[4]", "f32[6]"],
        ["f32[4,6] add(a, b)", A, B.replace("{0}", "{1}")],
    ),
    "not repeated": (["f32[4]", "f32[4,6]"], ["f32[4,6] add(a, x1)", A]),
    "transposed alone": (
        ["f32[6,4]"],
        ["f32[4,6] abs(a)", A.replace("{0}", "{1,0}")],
    ),
}


@pytest.mark.parametrize("name", [*ELEMENTWISE, *EACH])
def test_elementwise_operations_on_equal_elements(name: str) -> None:
    parameters, root = {**ELEMENTWISE, **EACH}[name]
    before = stated(parameters, *root)
    after = copy_module(before)
    SIMPLIFY.apply(after)
    (operation,) = (i for i in after.entry.instructions if i.opcode in COMPUTED)
    sizes = (4,) if name in ELEMENTWISE else (4, 6)
    assert operation.shape.dimensions == sizes
    assert_kept(before, after)


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
