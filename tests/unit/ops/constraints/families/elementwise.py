"""Broken elementwise operations: unary, binary, compare, select, clamp and changes of type."""

from collections.abc import Callable, Iterator

from tests.elementwise_operations import OPERATIONS
from tests.elementwise_operations.operation import Types
from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.elementwise.compare import (
    CompareAttributes,
    ComparisonDirection,
    ComparisonType,
)
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.types.opcode import Opcode

_TUPLE = "(f32[2])"


def _of(opcode: Opcode) -> tuple[Callable[..., object], Types]:
    row = OPERATIONS[opcode]
    return getattr(ops, row.function), row.types


def _unary_cases() -> Iterator[Case]:
    for opcode in UNARY:
        function, types = _of(opcode)
        for text in (*types.refused, _TUPLE):
            shape = text if text == _TUPLE else f"{text}[2]"
            rule = f"the element type of the operand must be {types.allowed}"
            if text == _TUPLE:
                rule = "the operand must be an array"
            yield Case(opcode, (shape,), f"{rule}, got {shape}", build=function)


def _binary_cases() -> Iterator[Case]:
    for opcode in BINARY:
        function, types = _of(opcode)
        for text in types.refused:
            shape = f"{text}[2]"
            message = f"the element type of the left operand must be {types.allowed}, got {shape}"
            yield Case(opcode, (shape, shape), message, build=function)
        yield from _binary_pairs(opcode, function, types)


def _binary_pairs(opcode: Opcode, function: Callable[..., object], types: Types) -> Iterator[Case]:
    good, other = next(
        (first, second)
        for first, second in (("f32", "f64"), ("s32", "s64"))
        if first not in types.refused
    )
    sizes = (f"{good}[2]", f"{good}[3]")
    yield Case(
        opcode,
        sizes,
        f"operands must have equal dimensions, got {sizes[0]} and {sizes[1]}",
        build=function,
        # The builder's broadcasting meets the sizes first.
        at_call="dimensions that meet must have equal size or size 1, got lhs dim 0 = 2 of "
        f"{sizes[0]} and rhs dim 0 = 3 of {sizes[1]}",
    )
    mixed = (f"{good}[2]", f"{other}[2]")
    yield Case(
        opcode,
        mixed,
        f"operands must have the same element type, got {mixed[0]} and {mixed[1]}",
        build=function,
    )
    tuples = (f"{good}[2]", f"({good}[2])")
    yield Case(
        opcode,
        tuples,
        f"the right operand must be an array, got {tuples[1]}",
        build=function,
        at_call=f"operands must be arrays, got {tuples[0]} and {tuples[1]}",
    )
    yield Case(
        opcode,
        tuples[::-1],
        f"the left operand must be an array, got {tuples[1]}",
        build=function,
        at_call=f"operands must be arrays, got {tuples[1]} and {tuples[0]}",
    )
    if types.refused:
        wrong = (f"{good}[2]", f"{types.refused[0]}[2]")
        yield Case(
            opcode,
            wrong,
            f"the element type of the right operand must be {types.allowed}, got {wrong[1]}",
            build=function,
        )


_EQ, _LT = ComparisonDirection.EQ, ComparisonDirection.LT


def _compare(
    operands: tuple[str, str],
    message: str,
    direction: ComparisonDirection = _EQ,
    kind: ComparisonType | None = None,
    at_call: str = "",
) -> Case:
    return Case(
        Opcode.COMPARE,
        operands,
        message,
        CompareAttributes(direction, kind),
        lambda lhs, rhs: ops.compare(lhs, rhs, direction, comparison_type=kind),
        declared="pred[2]",
        at_call=at_call,
    )


_COMPARE = (
    _compare(
        ("(f32[2])", "f32[2]"),
        "the left operand must be an array, got (f32[2])",
        at_call="operands must be arrays, got (f32[2]) and f32[2]",
    ),
    _compare(
        ("f32[]", "token[]"),
        "the right operand must be an array, got token[]",
        at_call="operands must be arrays, got f32[] and token[]",
    ),
    _compare(
        ("f32[2]", "f32[3]"),
        "operands must have equal dimensions, got f32[2] and f32[3]",
        at_call="dimensions that meet must have equal size or size 1, got lhs dim 0 = 2",
    ),
    _compare(
        ("f32[2]", "s32[2]"), "operands must have the same element type, got f32[2] and s32[2]"
    ),
    *(
        _compare(
            (f"{text}[2]", f"{text}[2]"),
            f"the comparison type of {text} must be {allowed}, got {kind} on {text}[2]",
            kind=kind,
        )
        for text, kind, allowed in (
            ("s32", ComparisonType.FLOAT, "SIGNED"),
            ("u32", ComparisonType.SIGNED, "UNSIGNED"),
            ("f32", ComparisonType.SIGNED, "FLOAT or TOTALORDER"),
            ("c64", ComparisonType.TOTALORDER, "FLOAT"),
        )
    ),
    _compare(
        ("c64[2]", "c64[2]"),
        "complex numbers have no order, so the direction must be EQ or NE, got LT on c64[2]",
        _LT,
    ),
    Case(
        Opcode.COMPARE,
        ("f32[2]", "f32[2]"),
        "comparison_type must be empty or one of FLOAT, TOTALORDER, SIGNED, UNSIGNED, got 'ROUGH'",
        CompareAttributes(_EQ),
        "the comparison type is an enumeration in Python",
        declared="pred[2]",
        edit=lambda proto: setattr(proto, "comparison_type", "ROUGH"),
    ),
)


def _ternary(opcode: Opcode, operands: str, message: str, at_call: str = "") -> Case:
    function = ops.select if opcode is Opcode.SELECT else ops.clamp
    return Case(opcode, operands.split(), message, build=function, at_call=at_call)


_TERNARY = (
    _ternary(
        Opcode.SELECT,
        "pred[3] f32[2] f32[2]",
        "the predicate and on_true must have equal dimensions, got pred[3] and f32[2]",
    ),
    _ternary(
        Opcode.SELECT,
        "s32[] f32[2] f32[2]",
        "the element type of the predicate must be pred, got s32[]",
    ),
    _ternary(Opcode.SELECT, "token[] f32[2] f32[2]", "the predicate must be an array, got token[]"),
    _ternary(
        Opcode.SELECT,
        "pred[2] f32[2] s32[2]",
        "on_true and on_false must have the same element type, got f32[2] and s32[2]",
    ),
    _ternary(
        Opcode.SELECT,
        "pred[] f32[2] f32[3]",
        "on_true and on_false must have equal dimensions, got f32[2] and f32[3]",
    ),
    _ternary(
        Opcode.SELECT,
        "pred[] (f32[2]) f32[2]",
        "on_true must be an array, got (f32[2])",
        at_call="tuples must have equally many elements, got (f32[2]) and f32[2]",
    ),
    _ternary(Opcode.SELECT, "pred[] f32[2] token[]", "on_false must be an array, got token[]"),
    _ternary(
        Opcode.CLAMP,
        "c64[2] c64[2] c64[2]",
        "the element type of the operand must be pred, integral or floating, got c64[2]",
    ),
    _ternary(Opcode.CLAMP, "f32[] (f32[2]) f32[]", "the operand must be an array, got (f32[2])"),
    _ternary(Opcode.CLAMP, "token[] f32[2] f32[]", "min must be an array, got token[]"),
    _ternary(
        Opcode.CLAMP,
        "s32[] f32[2] f32[]",
        "min and the operand must have the same element type, got s32[] and f32[2]",
    ),
    _ternary(
        Opcode.CLAMP,
        "f32[] f32[2] f32[3]",
        "max and the operand must have equal dimensions, got f32[3] and f32[2]",
    ),
)
CASES: tuple[Case, ...] = (*_unary_cases(), *_binary_cases(), *_COMPARE, *_TERNARY)
