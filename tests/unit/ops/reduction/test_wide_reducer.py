"""Reducers of narrow floats become reducers of F32 where they round, and stay otherwise."""

import pytest

from tests.unit.passes.passing import imported
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation
from xla_server.ops.reduction.wide_reducer import wide_type, widened


def reducer(body: str, kind: str = "f16") -> HloComputation:
    """The computation of these instructions on scalars a and b."""
    text = f"""HloModule m
    f {{ a = {kind}[] parameter(0)
      b = {kind}[] parameter(1)
      {body} }}
    ENTRY e {{ x = {kind}[4] parameter(0)
      z = {kind}[] constant(0)
      ROOT r = {kind}[] reduce(x, z), dimensions={{0}}, to_apply=f }}"""
    return imported(text).entry.root.called[0]


LOGADDEXP = """larger = {0}[] maximum(a, b)
  difference = {0}[] subtract(a, b)
  is_nan = pred[] compare(difference, difference), direction=NE
  size = {0}[] abs(difference)
  down = {0}[] negate(size)
  small = {0}[] exponential(down)
  log = {0}[] log-plus-one(small)
  total = {0}[] add(larger, log)
  sum = {0}[] add(a, b)
  ROOT r = {0}[] select(is_nan, sum, total)"""


@pytest.mark.parametrize("kind", ["f16", "bf16", "f8e5m2"])
def test_a_formula_of_narrow_floats_is_computed_in_f32(kind: str) -> None:
    narrow = reducer(LOGADDEXP.replace("{0}", kind), kind)
    wide = widened(narrow)
    assert wide is not None
    assert [i.opcode for i in wide.instructions] == [i.opcode for i in narrow.instructions]
    kinds = {i.shape.element_type for i in wide.instructions}
    assert kinds == {E.F32, E.PRED}
    assert {i.attributes.shape.element_type for i in wide.parameters} == {E.F32}
    # The reducer itself stays as it was.
    assert {i.shape.element_type.text for i in narrow.instructions} == {kind, "pred"}


def test_constants_and_conversions_are_widened_and_those_to_f32_left_out() -> None:
    wide = widened(
        reducer(
            """x = f32[] convert(a)
      y = f32[] convert(b)
      h = f16[] constant(0.5)
      k = f32[] convert(h)
      p = f32[] multiply(y, k)
      s = f32[] add(x, p)
      ROOT r = f16[] convert(s)"""
        )
    )
    assert wide is not None
    assert [str(i.opcode) for i in wide.instructions] == [
        *("parameter", "parameter", "constant", "multiply", "add")
    ]
    (half,) = (i for i in wide.instructions if i.opcode is Opcode.CONSTANT)
    assert half.attributes.literal.value == 0.5
    assert half.attributes.literal.shape.element_type is E.F32
    assert wide.root.opcode is Opcode.ADD


STAYS = {
    "extremum": ("ROOT r = f16[] maximum(a, b)", "f16"),
    "choice": (
        "p = f16[] abs(a)\n q = f16[] abs(b)\n c = pred[] compare(p, q), direction=GT\n"
        "ROOT r = f16[] select(c, a, b)",
        "f16",
    ),
    "wide": ("s = f32[] subtract(a, b)\n ROOT r = f32[] abs(s)", "f32"),
    "integers": ("s = s8[] subtract(a, b)\n ROOT r = s8[] abs(s)", "s8"),
    "fewer digits": (
        "s = f16[] add(a, b)\n ROOT r = f16[] reduce-precision(s), exponent_bits=5, "
        "mantissa_bits=3",
        "f16",
    ),
    "bits": (
        "s = f16[] add(a, b)\n u = u16[] bitcast-convert(s)\nROOT r = f16[] bitcast-convert(u)",
        "f16",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_rounds_nothing_or_sees_bits_stays(name: str) -> None:
    assert widened(reducer(*STAYS[name])) is None


def test_floats_of_fewer_than_32_bits_are_narrow() -> None:
    narrow = {kind for kind in E if wide_type(kind) is not kind}
    assert {E.F16, E.BF16, E.F8E5M2} <= narrow
    assert not narrow & {E.F32, E.F64, E.C64, E.S8, E.PRED}
