"""Values of the Python compiler: a numba type and an LLVM value of it.

Operators have numba's semantics: whole numbers are widened to int64 before an operation. Types that
numba would infer otherwise are not supported here.
"""

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types

from xla_server.codegen.instructions.memory import COMPUTED, REGISTERS
from xla_server.codegen.kernel_ir.routine import Record
from xla_server.codegen.kernel_ir.types import Type

Typed: TypeAlias = tuple[Any, Any]
"""A numba type and an LLVM value of it; of a tuple, the values of its elements."""

WORD, BIT = ir.IntType(64), ir.IntType(1)
FORMS: dict[Any, Any] = {COMPUTED[name]: form for name, form in REGISTERS.items()}
"""Representation of each type in registers."""

_NUMPY = {kind.dtype: COMPUTED[kind] for kind in Type}
_RELATIONS: dict[type[ast.cmpop], tuple[str, Callable[[int, int], bool]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
"""Python's comparison -> LLVM's name, and the function of constants."""

_OPERATORS: dict[type[ast.operator], tuple[str, Callable[[int, int], int], int]] = {
    ast.Add: ("add", operator.add, 0),
    ast.Sub: ("sub", operator.sub, 0),
    ast.Mult: ("mul", operator.mul, 1),
    ast.BitOr: ("or_", operator.or_, 0),
}
"""Python's operator -> the builder's method, the function of constants, the neutral element."""


class UnsupportedError(Exception):
    """A function uses Python outside of the compiler's subset."""


def whole(number: int) -> Typed:
    """An integer literal, as int64."""
    if not -(2**63) <= number < 2**63:
        raise UnsupportedError("a number of more than 64 bits")
    return types.int64, ir.Constant(WORD, number)


def constant(value: Any) -> Typed:
    """A global name's value, a number of numpy or of Python, as a constant."""
    if isinstance(value, bool):
        return types.boolean, ir.Constant(BIT, int(value))
    if type(value) is int:
        return whole(value)
    kind = _NUMPY.get(value.dtype) if isinstance(value, np.generic) else None
    if kind is None:
        raise UnsupportedError(f"a global {type(value).__name__}")
    number = value.item()
    if isinstance(number, complex):
        parts = FORMS[kind].elements
        number = [
            ir.Constant(*part) for part in zip(parts, (number.real, number.imag), strict=True)
        ]
    return kind, ir.Constant(FORMS[kind], number)


def joined(values: Sequence[Typed], record: type[Record] = tuple) -> Typed:
    """A tuple of values, or the record that has them as its fields."""
    kinds = [kind for kind, _ in values]
    return types.BaseTuple.from_types(kinds, record), tuple(value for _, value in values)


def parts(value: Typed) -> list[Typed]:
    """The elements of a tuple."""
    kind, values = value
    if not isinstance(kind, types.BaseTuple):
        raise UnsupportedError(f"the elements of a value of {kind}")
    return list(zip(kind, values, strict=True))


def field(value: Typed, name: str) -> Typed:
    """The field of a record."""
    kind, values = value
    if not isinstance(kind, types.BaseNamedTuple) or name not in kind.fields:
        raise UnsupportedError(f"the attribute {name} of a value of {kind}")
    number = kind.fields.index(name)
    return kind[number], values[number]


def in_registers(builder: Any, value: Typed) -> Any:
    """A value as instructions take it: tuples of numbers of one type are arrays."""
    kind, code = value
    if not isinstance(kind, types.BaseTuple):
        return code
    if not code:
        return ir.Constant(ir.ArrayType(WORD, 0), ir.Undefined)
    if not isinstance(kind, types.UniTuple) or kind.dtype not in FORMS:
        raise UnsupportedError(f"an operand of {kind}")
    packed = ir.Constant(ir.ArrayType(FORMS[kind.dtype], len(code)), ir.Undefined)
    for number, element in enumerate(code):
        packed = builder.insert_value(packed, element, number)
    return packed


def from_registers(builder: Any, kind: Any, code: Any) -> Typed:
    """Return the value of an instruction's result."""
    if not isinstance(kind, types.UniTuple):
        return kind, code
    return kind, tuple(builder.extract_value(code, number) for number in range(len(kind)))


def truth(builder: Any, value: Typed) -> Any:
    """The i1 of a value's truth."""
    kind, code = value
    if kind == types.boolean:
        return code
    if not isinstance(kind, types.Integer):
        raise UnsupportedError(f"the truth of a value of {kind}")
    if isinstance(code, ir.Constant):
        return ir.Constant(BIT, int(code.constant != 0))
    return builder.icmp_unsigned("!=", code, ir.Constant(code.type, 0))


def negated(builder: Any, bit: Any) -> Any:
    """The negation of a predicate."""
    if isinstance(bit, ir.Constant):
        return ir.Constant(BIT, 1 - int(bit.constant))
    return builder.not_(bit)


def widened(builder: Any, value: Typed) -> Typed:
    """A whole number as int64."""
    kind, code = value
    if kind == types.int64:
        return value
    if kind == types.boolean:
        return types.int64, builder.zext(code, WORD)
    if not isinstance(kind, types.Integer) or kind == types.uint64:
        raise UnsupportedError(f"a value of {kind} as a number")
    return types.int64, (builder.sext if kind.signed else builder.zext)(code, WORD)


def binary(builder: Any, sign: ast.operator, left: Typed, right: Typed) -> Typed:
    """Python's operator on whole numbers."""
    if not any(kind in (types.boolean,) or kind.signed for kind, _ in _whole_numbers(left, right)):
        raise UnsupportedError("numbers without sign stay so")
    (_, x), (_, y) = widened(builder, left), widened(builder, right)
    if type(sign) in _OPERATORS:
        method, fold, neutral = _OPERATORS[type(sign)]
        known = _folded(fold, neutral, x, y)
        return types.int64, getattr(builder, method)(x, y) if known is None else known
    if not isinstance(sign, ast.FloorDiv):
        raise UnsupportedError(f"the operator {type(sign).__name__}")
    if not isinstance(y, ir.Constant) or y.constant <= 0:
        raise UnsupportedError("division by a number that may be zero")
    quotient = builder.sdiv(x, y)
    rest = builder.sub(x, builder.mul(quotient, y))
    below = builder.icmp_signed("<", rest, ir.Constant(WORD, 0))
    return types.int64, builder.select(below, builder.sub(quotient, ir.Constant(WORD, 1)), quotient)


def _folded(fold: Callable[[int, int], int], neutral: int, x: Any, y: Any) -> Any:
    """Return the result of an operation that needs no instruction, else None."""
    if isinstance(x, ir.Constant) and isinstance(y, ir.Constant):
        result = fold(x.constant, y.constant)
        return ir.Constant(WORD, (result + 2**63) % 2**64 - 2**63)
    for number, other in ((y, x), (x, y)):
        is_same = isinstance(number, ir.Constant) and number.constant == neutral
        if is_same and (number is y or fold is not operator.sub):
            return other
    return None


def compare(builder: Any, sign: ast.cmpop, left: Typed, right: Typed) -> Typed:
    """Python's comparison of whole numbers."""
    if type(sign) not in _RELATIONS:
        raise UnsupportedError(f"the comparison {type(sign).__name__}")
    relation, fold = _RELATIONS[type(sign)]
    _whole_numbers(left, right)
    (_, x), (_, y) = widened(builder, left), widened(builder, right)
    if isinstance(x, ir.Constant) and isinstance(y, ir.Constant):
        return constant(fold(x.constant, y.constant))
    return types.boolean, builder.icmp_signed(relation, x, y)


def _whole_numbers(*values: Typed) -> tuple[Typed, ...]:
    for kind, _ in values:
        if kind != types.boolean and not isinstance(kind, types.Integer):
            raise UnsupportedError(f"an operator on {kind}")
    return values


def _extreme(relation: str) -> Callable[..., Typed]:
    def extreme(builder: Any, *values: Typed) -> Typed:
        """The first of the largest, or smallest, of whole numbers."""
        if len(values) < 2 or any(kind != types.int64 for kind, _ in values):
            raise UnsupportedError("the extreme of something else")
        _, best = values[0]
        for _, other in values[1:]:
            best = builder.select(builder.icmp_signed(relation, other, best), other, best)
        return types.int64, best

    return extreme


BUILT_IN: dict[Any, Callable[..., Typed]] = {
    max: _extreme(">"),
    min: _extreme("<"),
    int: widened,
}
"""Python's built-in functions that sources may call."""
