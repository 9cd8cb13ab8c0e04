"""Rules of the algebraic simplifier on elementwise operations."""

import math
from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_server.evaluator.interpret import evaluate
from xla_server.passes.framework.fixpoint import Fixpoint
from xla_server.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xla_server.passes.simplify.constant_folding import ConstantFolding

SIMPLIFY = Fixpoint("simplify", (AlgebraicSimplifier(), ConstantFolding()))

F, S, U, P = "f32[40]", "s32[40]", "u8[40]", "pred[40]"


def _with(shape: str, value: str, root: str) -> tuple[list[str], str, str, str]:
    """A program of x0 and c, a constant broadcast to x0's shape."""
    scalar = shape.split("[")[0] + "[]"
    return (
        [shape],
        root,
        f"k = {scalar} constant({value})",
        f"c = {shape} broadcast(k), dimensions={{}}",
    )


def _below_zero(size: int) -> tuple[list[str], str, str, str, str]:
    """A test of whether numbers of an s8 iota are negative, as those above 127 are."""
    return (
        [],
        f"pred[{size},3] compare(i, c), direction=LT",
        "k = s8[] constant(0)",
        f"c = s8[{size},3] broadcast(k), dimensions={{}}",
        f"i = s8[{size},3] iota(), iota_dimension=0",
    )


FIRES: dict[str, tuple[Any, dict[str, int]]] = {
    "add_negative_zero": (_with(F, "-0.0", "f32[40] add(x0, c)"), {}),
    "add_zero_on_the_left": (_with(S, "0", "s32[40] add(c, x0)"), {}),
    "subtract_zero": (_with(F, "0", "f32[40] subtract(x0, c)"), {}),
    "subtract_itself": (([S], "s32[40] subtract(x0, x0)"), {"broadcast": 1, "constant": 1}),
    "multiply_one": (_with(F, "1", "f32[40] multiply(x0, c)"), {}),
    "multiply_zero": (_with(S, "0", "s32[40] multiply(x0, c)"), {"broadcast": 1, "constant": 1}),
    "divide_one": (_with(F, "1", "f32[40] divide(x0, c)"), {}),
    "divide_by_a_power_of_two": (
        _with(F, "8", "f32[40] divide(x0, c)"),
        {"multiply": 1, "broadcast": 1, "constant": 1},
    ),
    "remainder_of_one": (
        _with(S, "1", "s32[40] remainder(x0, c)"),
        {"broadcast": 1, "constant": 1},
    ),
    "maximum_with_lowest": (_with(F, "-inf", "f32[40] maximum(x0, c)"), {}),
    "minimum_with_highest": (_with(U, "255", "u8[40] minimum(c, x0)"), {}),
    "maximum_with_highest": (
        _with(U, "255", "u8[40] maximum(c, x0)"),
        {"broadcast": 1, "constant": 1},
    ),
    "maximum_with_itself": (([F], "f32[40] maximum(x0, x0)"), {}),
    "and_all_bits": (_with(S, "-1", "s32[40] and(x0, c)"), {}),
    "and_nothing": (_with(S, "0", "s32[40] and(x0, c)"), {"broadcast": 1, "constant": 1}),
    "or_true": (_with(P, "true", "pred[40] or(x0, c)"), {"broadcast": 1, "constant": 1}),
    "or_false": (_with(P, "false", "pred[40] or(x0, c)"), {}),
    "xor_itself": (([S], "s32[40] xor(x0, x0)"), {"broadcast": 1, "constant": 1}),
    "xor_all_bits": (_with(S, "-1", "s32[40] xor(x0, c)"), {"not": 1}),
    "shift_by_nothing": (_with(S, "0", "s32[40] shift-left(x0, c)"), {}),
    "negate_twice": (([F], "f32[40] negate(n1)", "n1 = f32[40] negate(x0)"), {}),
    "not_twice": (([S], "s32[40] not(n1)", "n1 = s32[40] not(x0)"), {}),
    "abs_twice": (([F], "f32[40] abs(n1)", "n1 = f32[40] abs(x0)"), {"abs": 1}),
    "log_of_the_exponential_of_a_difference_of_equals": (
        ([F], f"{F} log(e)", f"d = {F} subtract(x0, x0)", f"e = {F} exponential(d)"),
        {"subtract": 1},
    ),
    "log_of_a_sum_of_one_exponential": (
        (
            *_with(F, "0", f"{F} log(s)"),
            f"d = {F} subtract(x0, x0)",
            f"e = {F} exponential(d)",
            f"s = {F} add(c, e)",
        ),
        {"subtract": 1},
    ),
    "power_zero": (_with(F, "0", "f32[40] power(x0, c)"), {"broadcast": 1, "constant": 1}),
    "power_one": (_with(F, "1", "f32[40] power(x0, c)"), {}),
    "power_two": (_with(S, "2", "s32[40] power(x0, c)"), {"multiply": 1}),
    "compare_with_itself": (
        ([S], "pred[40] compare(x0, x0), direction=LE"),
        {"broadcast": 1, "constant": 1},
    ),
    "unsigned_below_zero": (
        _with(U, "0", "pred[40] compare(x0, c), direction=LT"),
        {"broadcast": 1, "constant": 1},
    ),
    "index_below_zero": (_below_zero(128), {"broadcast": 1, "constant": 1}),
    "predicate_is_true": (_with(P, "true", "pred[40] compare(x0, c), direction=EQ"), {}),
    "predicate_is_not_true": (
        _with(P, "true", "pred[40] compare(x0, c), direction=NE"),
        {"not": 1},
    ),
    "select_known": (
        ([F, F], "f32[40] select(c, x0, x1)", "c = pred[] constant(false)"),
        {},
    ),
    "select_same": (([P, F], "f32[40] select(x0, x1, x1)"), {}),
    "select_negated": (
        ([P, F, F], "f32[40] select(c, x1, x2)", "c = pred[40] not(x0)"),
        {"select": 1},
    ),
    **{
        f"select_of_{yes}_and_{no}": (
            (
                [P],
                "pred[40] select(x0, b, d)",
                f"a = pred[] constant({yes})",
                "b = pred[40] broadcast(a), dimensions={}",
                f"c = pred[] constant({no})",
                "d = pred[40] broadcast(c), dimensions={}",
            ),
            left,
        )
        for yes, no, left in (
            ("false", "false", {"constant": 1, "broadcast": 1}),
            ("false", "true", {"not": 1}),
            ("true", "false", {}),
            ("true", "true", {"constant": 1, "broadcast": 1}),
        )
    },
    "convert_to_the_same": (([F], "f32[40] convert(x0)"), {}),
    "convert_there_and_back": (
        (["bf16[40]"], "bf16[40] convert(w)", "w = f32[40] convert(x0)"),
        {},
    ),
    "convert_through_wider": (
        (["s8[40]"], "f32[40] convert(w)", "w = s32[40] convert(x0)"),
        {"convert": 1},
    ),
    "scalars_before_broadcast": (
        (
            ["f32[]", "f32[]"],
            "f32[40] add(a, b)",
            "a = f32[40] broadcast(x0), dimensions={}",
            "b = f32[40] broadcast(x1), dimensions={}",
        ),
        {"add": 1, "broadcast": 1},
    ),
}

STAYS: dict[str, tuple[Any, ...]] = {
    "add_zero_loses_the_sign_of_zero": _with(F, "0", "f32[40] add(x0, c)"),
    "subtract_negative_zero": _with(F, "-0.0", "f32[40] subtract(x0, c)"),
    "subtract_itself_of_floats": ([F], "f32[40] subtract(x0, x0)"),
    "multiply_zero_of_floats": _with(F, "0", "f32[40] multiply(x0, c)"),
    "multiply_one_of_complex": _with("c64[40]", "(1, 0)", "c64[40] multiply(x0, c)"),
    "divide_by_three": _with(F, "3", "f32[40] divide(x0, c)"),
    "divide_integers": _with(S, "2", "s32[40] divide(x0, c)"),
    "minimum_with_lowest_of_floats": _with(F, "-inf", "f32[40] minimum(x0, c)"),
    "compare_floats_with_themselves": ([F], "pred[40] compare(x0, x0), direction=EQ"),
    "index_that_wraps_below_zero": _below_zero(129),
    "signed_below_zero": _with(S, "0", "pred[40] compare(x0, c), direction=LT"),
    "convert_through_narrower": (["s32[40]"], "s32[40] convert(w)", "w = s8[40] convert(x0)"),
    "convert_through_f64": ([F], "f32[40] convert(w)", "w = f64[40] convert(x0)"),
    "convert_sign_away": (["s8[40]"], "s32[40] convert(w)", "w = u8[40] convert(x0)"),
    "xor_one": _with(S, "1", "s32[40] xor(x0, c)"),
    "log_of_a_complex_sum": (
        ["c64[40]"],
        "c64[40] log(s)",
        "k = c64[] constant((0, 2))",
        "c = c64[40] broadcast(k), dimensions={}",
        "s = c64[40] add(c, x0)",
    ),
    "log_of_an_exponential": ([F], f"{F} log(e)", f"e = {F} exponential(x0)"),
    "log_of_the_exponential_of_a_difference": (
        [F, F],
        f"{F} log(e)",
        f"d = {F} subtract(x0, x1)",
        f"e = {F} exponential(d)",
    ),
    "power_five": _with(F, "5", "f32[40] power(x0, c)"),
}


@pytest.mark.parametrize("name", FIRES)
def test_fires(name: str) -> None:
    program, expected = FIRES[name]
    assert opcodes(rewritten(stated(*program), SIMPLIFY)) == expected


@pytest.mark.parametrize("name", STAYS)
def test_does_not_fire(name: str) -> None:
    passed(stated(*STAYS[name]), AlgebraicSimplifier(), fires=False)


@pytest.mark.parametrize(
    ("exponent", "opcode"),
    [("2", "multiply"), ("3", "multiply"), ("-1", "divide"), ("0.5", "sqrt")],
)
def test_small_powers_of_floats(exponent: str, opcode: str) -> None:
    before = stated(*_with(F, exponent, "f32[40] power(x0, c)"))
    after = rewritten(
        before, SIMPLIFY, arguments=[np.linspace(0.1, 3, 40, dtype=np.float32)], relative=3e-7
    )
    assert "power" not in opcodes(after)
    assert opcode in opcodes(after)


@pytest.mark.parametrize("exponent", [2, 3, -1, 0.5])
def test_small_powers_of_special_numbers(exponent: float) -> None:
    after = passed(stated(*_with(F, str(exponent), "f32[40] power(x0, c)")), SIMPLIFY)
    special = np.resize(
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 4.0, 0.25, 1.0], np.float32), 40
    )
    with np.errstate(all="ignore"):
        expected = [
            math.pow(x, exponent) if x or exponent > 0 else np.copysign(np.inf, x) for x in special
        ]
    assert_equal_bits(evaluate(after, [special]), np.array(expected, np.float32))
