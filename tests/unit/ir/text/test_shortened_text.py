"""Text as people write it by hand: what XLA's parser completes, ours completes alike."""

import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.fingerprint import fingerprint
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.ir.text.printer import print_module

HEAD = """HloModule short

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = add(a, b)
}

ENTRY main {
  x = f32[2,3] parameter(0)
  y = f32[3,4] parameter(1)
  s = f32[] parameter(2)
  i = s32[] parameter(3)
"""

INFERRED = {
    "negate(x)": "f32[2,3]",
    "tuple(x, s)": "(f32[2,3], f32[])",
    "compare(s, s), direction=LT": "pred[]",
    "dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}": "f32[2,4]",
    "reduce(x, s), dimensions={1}, to_apply=sum": "f32[2]",
    "map(x, x), to_apply=sum": "f32[2,3]",
    "call(s, s), to_apply=sum": "f32[]",
    "transpose(x), dimensions={1,0}": "f32[3,2]",
    "pad(x, s), padding=1_0x0_1": "f32[3,4]",
    "slice(x), slice={[0:1], [0:3:2]}": "f32[1,2]",
    "dynamic-slice(x, i, i), dynamic_slice_sizes={1,2}": "f32[1,2]",
    "concatenate(x, x), dimensions={0}": "f32[4,3]",
    "after-all()": "token[]",
}
"""Text without shape -> its shape."""

OURS_ALONE = {
    "map(x, x), to_apply=sum",
    "slice(x), slice={[0:1], [0:3:2]}",
    "dynamic-slice(x, i, i), dynamic_slice_sizes={1,2}",
    "transpose(x), dimensions={1,0}",
}
"""Texts whose shape jaxlib requires, or gives the operand's layout."""


def _text(root: str) -> str:
    return f"{HEAD}  ROOT r = {root}\n}}\n"


def _module(root: str) -> HloModule:
    return parse_module(_text(root))


def _xla(text: str) -> HloModule:
    return import_module(parse_hlo(text))


def _digest(module: HloModule) -> bytes:
    return fingerprint(module, module.entry_program_shape)


@pytest.mark.parametrize("text", INFERRED)
def test_a_shape_that_is_absent_is_inferred(text: str) -> None:
    ours = _module(text)
    assert str(ours.entry.root.shape.without_layout()) == INFERRED[text]
    assert _digest(ours) == _digest(_module(f"{INFERRED[text]} {text}"))


@pytest.mark.parametrize(
    "text",
    [
        "f32[2] reduce(negate(x), f32[] constant(0)), dimensions={1}, to_apply=sum",
        "f32[2,3] add(f32[2,3] x, f32[2,3] multiply(x, f32[2,3] broadcast(s)))",
        "token[] outfeed(x, token[] after-all())",
        "f32[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "operand_precision={HIGH,DEFAULT}",
        "f32[2,3] map(x, x), to_apply=sum",
        "f32[3,2] reshape(x), inferred_dimension=0",
        "add(x, x, )",
        *sorted(INFERRED.keys() - OURS_ALONE),
    ],
)
def test_xla_reads_the_same(text: str) -> None:
    # Both by way of jaxlib, which orders instructions anew.
    assert _digest(_xla(_text(text))) == _digest(_xla(print_module(_module(text))))


@pytest.mark.parametrize("element", ["s32", "bf16", "pred", "c64"])
def test_a_number_stands_for_every_element_of_a_constant(element: str) -> None:
    number = {"pred": "true", "c64": "(1, 2)"}.get(element, "7")
    module = _module(f"{element}[5,1000000] constant({number})")
    # The array is not kept, however large.
    assert [each.opcode for each in module.entry.instructions[-2:]] == [
        Opcode.CONSTANT,
        Opcode.BROADCAST,
    ]
    small = parse_module(f"f {{ ROOT c = {element}[2,2] constant({number}) }}")
    result = evaluate(small, [])
    scalar = evaluate(parse_module(f"f {{ ROOT c = {element}[] constant({number}) }}"), [])
    np.testing.assert_array_equal(result, np.full((2, 2), scalar))


def test_a_text_may_be_a_computation_alone() -> None:
    module = parse_module("double { x = f32[4] parameter(0) ROOT y = add(x, x) }")
    assert str(module.entry.program_shape.result) == "f32[4]"
    assert parse_module("ENTRY %e (x: f32[4]) -> f32[4] { ROOT x = f32[4] parameter(0) }")


@pytest.mark.parametrize(
    "signature",
    ["(x: f32[4] /* ) ( */) -> f32[4]", "(x f32[4] // )\n) -> f32[4]", "(x: (f32[])) -> f32[4]"],
)
def test_a_signature_may_hold_comments(signature: str) -> None:
    text = f"ENTRY e {signature} {{ ROOT x = f32[4] parameter(0) }}"
    assert _digest(parse_module(text)) == _digest(_xla(text))


REFUSED = {
    "constant(1)": "constant %r: the shape of the instruction is needed in HLO text, "
    "got 'constant(1)",
    "parameter(4)": "parameter %r: the shape of the instruction is needed",
    "convert(x)": "convert %r: the shape of the instruction is needed",
    "iota(), iota_dimension=0": "iota %r: the shape of the instruction is needed",
    "dot(x, bf16[3] constant({1,2,3})), lhs_contracting_dims={1}, rhs_contracting_dims={0}": "dot "
    "%r: the shape of the instruction is needed",
    "f32[2,3] broadcast(x)": "broadcast %r: ",
    "add(x, y)": "add: operands must have equal dimensions",
    "negate(" * 66: "at most 64 operands inside of operands are needed",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_completed_is_refused(text: str) -> None:
    with pytest.raises((InvalidArgumentError, ShapeError)) as caught:
        _module(text)
    assert REFUSED[text] in caught.value.message
