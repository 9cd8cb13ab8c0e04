"""Subnormal numbers in elementwise operations: the stated rule, both platforms, and jaxlib."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits, run_on_xla
from tests.corpus.hlo_text import parse_hlo
from tests.elementwise_operations import OPERATIONS
from tests.unit.codegen.compiled import built, interpreted, on_cpu
from tests.unit.passes.passing import imported
from xla_client import ops
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.types.element_type import ElementType as E
from xla_server.ops.elementwise.subnormal_rule import flushes_operands, flushes_results

TYPES = (E.F32, E.F64, E.BF16, E.F16)
numbers: Any = ml_dtypes

EXACT = {str(opcode): row.real for opcode, row in OPERATIONS.items() if row.real is not None}
"""Functions of more precise numbers than each type's, in which its subnormal ones are normal."""

DIFFERENT_IN_JAXLIB = {
    "atan2": "divides first, so that two subnormal numbers give NaN, or a quarter turn in F64",
    "cbrt": "gives -5.6e-16 for every subnormal number",
    "power": "takes one root for all subnormal numbers where the exponent is 0.5",
    "acos": "no lowering",
    "acosh": "no lowering",
    "asin": "no lowering but of BF16",
    "asinh": "no lowering but of BF16",
    "atan": "no opcode in its text",
    "atanh": "no lowering but of BF16",
    "cosh": "no lowering but of BF16",
    "sinh": "no lowering but of BF16",
}
"""Where jaxlib's CPU backend states no rule, and what it does."""


def operands(kind: E) -> tuple[Any, Any]:
    """All pairs of subnormal numbers, the normal ones next to them, zeros and ordinary ones."""
    info = numbers.finfo(kind.dtype)
    least, normal = float(info.smallest_subnormal), float(info.smallest_normal)
    some = [least, normal / 4, normal - least, normal, 1.5 * normal, 0.0, 0.5, 1.0, 2.0]
    line = np.array([*some, *(-number for number in some)]).astype(kind.dtype)
    return np.repeat(line, line.size), np.tile(line, line.size)


def stated(kind: E, text: str) -> str:
    count = operands(kind)[0].size
    return (
        f"HloModule m\nENTRY e {{ x = {kind.text}[{count}] parameter(0)\n"
        f" y = {kind.text}[{count}] parameter(1)\n"
        f" ROOT r = {text.replace('[]', f'[{count}]')} }}"
    )


def program(opcode: str, kind: E) -> str:
    result = "pred" if opcode == "is-finite" else kind.text
    arity = "x, y" if opcode in BINARY else "x"
    return stated(kind, f"{result}[] {opcode}({arity})")


def is_subnormal(array: Any, kind: E) -> Any:
    size = np.abs(array.astype(np.longdouble))
    return (size > 0) & (size < float(numbers.finfo(kind.dtype).smallest_normal))


def flushed(array: Any, kind: E) -> Any:
    return np.where(is_subnormal(array, kind), np.copysign(array.dtype.type(0), array), array)


def by_rule(opcode: str, kind: E, module: Any) -> Any:
    """The exact results, operands and results flushed as the rule says."""
    root = module.entry.root
    given = [each.astype(np.longdouble) for each in operands(kind)][: len(root.operands)]
    if flushes_operands(root):
        given = [flushed(each, kind) for each in given]
    with np.errstate(all="ignore"):
        if opcode == "remainder" and kind is not E.F16:
            given[1] = flushed(given[1], kind)
        result = EXACT[opcode](*given)
        if result.dtype == np.bool_:
            return result
        rounded = result.astype(np.float64).astype(kind.dtype)
        return flushed(rounded, kind) if flushes_results(root) else rounded


def is_near(ours: Any, expected: Any, kind: E) -> Any:
    """Same zeros with their signs, same NaN and infinities; else within few units."""
    if ours.dtype == np.bool_:
        return ours == expected
    a, b = ours.astype(np.longdouble), expected.astype(np.longdouble)
    units = 4 * np.maximum(
        np.abs(b) * float(numbers.finfo(kind.dtype).eps),
        float(numbers.finfo(kind.dtype).smallest_subnormal),
    )
    with np.errstate(all="ignore"):
        near = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= units)
    zeros = ((a == 0) == (b == 0)) & ((a != 0) | (np.signbit(a) == np.signbit(b)))
    return near & zeros


def cases() -> Iterator[Any]:
    for opcode in map(str, (*UNARY, *BINARY)):
        for kind in TYPES:
            row = UNARY.get(opcode) or BINARY.get(opcode)  # type: ignore[call-overload]
            if kind in row.members and opcode in EXACT:
                yield pytest.param(opcode, kind, id=f"{opcode}-{kind.text}")


def test_every_operation_on_floats_has_its_reference() -> None:
    of_floats = {str(o) for o, row in (*UNARY.items(), *BINARY.items()) if E.F32 in row.members}
    assert of_floats - {"complex", "real", "imag"} <= set(EXACT)


@pytest.mark.parametrize(("opcode", "kind"), list(cases()))
def test_both_platforms_follow_the_rule(opcode: str, kind: E) -> None:
    if opcode == "atan":
        # Not in jaxlib's HLO text.
        module = built(ops.atan, operands(kind)[:1])
    else:
        module = imported(program(opcode, kind))
    arguments = list(operands(kind))[: len(module.entry.parameters)]
    expected = by_rule(opcode, kind, module)
    for (result,) in (on_cpu(module, arguments), interpreted(module, arguments)):
        wrong = np.flatnonzero(~is_near(result, expected, kind))
        some = [each[wrong[:3]] for each in arguments]
        assert not wrong.size, (some, result[wrong[:3]], expected[wrong[:3]])


@pytest.mark.parametrize(
    ("opcode", "kind"), [each for each in cases() if each.values[0] not in DIFFERENT_IN_JAXLIB]
)
def test_the_rule_is_that_of_xla(opcode: str, kind: E) -> None:
    text = program(opcode, kind)
    (result,) = run_on_xla(parse_hlo(text), operands(kind))
    expected = by_rule(opcode, kind, imported(text))
    assert is_near(result, expected, kind).all()


OTHERS = (
    *(f"pred[] compare(x, y), direction={each}" for each in ("EQ", "NE", "LT", "GE")),
    *(f"pred[] compare(x, y), direction={each}, type=TOTALORDER" for each in ("EQ", "LT")),
    "{kind}[] clamp(x, y, x)",
    "{kind}[] reduce-precision(x), exponent_bits=8, mantissa_bits=7",
    *(f"{to}[] convert(x)" for to in ("f32", "f64", "bf16", "f16", "pred", "s32")),
    # Instructions that the compiler removes keep subnormal numbers.
    *(f"{{kind}}[] {each}(x, x)" for each in ("maximum", "minimum")),
    "{kind}[] clamp(x, x, x)",
)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.text)
@pytest.mark.parametrize("text", OTHERS)
def test_comparisons_conversions_and_what_is_left_out(text: str, kind: E) -> None:
    whole = stated(kind, text.replace("{kind}", kind.text))
    arguments = list(operands(kind))
    (expected,) = run_on_xla(parse_hlo(whole), arguments)
    module = imported(whole)
    for (result,) in (on_cpu(module, arguments), interpreted(module, arguments)):
        assert_equal_bits(result, expected)


NEUTRAL = (
    *(("multiply", "1"), ("divide", "1"), ("subtract", "0"), ("power", "1")),
    *(("maximum", "-inf"), ("minimum", "inf"), ("power", "0.5"), ("power", "2")),
)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.text)
@pytest.mark.parametrize(("opcode", "constant"), NEUTRAL)
def test_operations_with_a_neutral_constant(opcode: str, constant: str, kind: E) -> None:
    text = stated(kind, f"{kind.text}[] {opcode}(x, c)")
    (x, y), size = operands(kind), operands(kind)[0].size
    before = (
        f" k = {kind.text}[] constant({constant})\n"
        f" c = {kind.text}[{size}] broadcast(k), dimensions={{}}\n ROOT"
    )
    text = text.replace(" ROOT", before)
    module = imported(text)
    (expected,) = run_on_xla(parse_hlo(text), (x, y))
    for (result,) in (on_cpu(module, [x, y]), interpreted(module, [x, y])):
        assert is_near(result, expected, kind).all()
