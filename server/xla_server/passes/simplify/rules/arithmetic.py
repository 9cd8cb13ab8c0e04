"""Identities of elementwise operations that hold to the bit, for every NaN, infinity and zero."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.ops.elementwise.convert import ConvertAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import COMBINING, ROWS
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import neutral_of, splat
from xla_server.passes.framework.rewrite_pass import EditorRule


def _is_whole(i: HloInstruction) -> bool:
    """Return whether elements are integers or predicates, which have one zero and no NaN."""
    kind = i.shape.element_type
    return kind.is_integer or kind is ElementType.PRED


def _is_real_float(i: HloInstruction) -> bool:
    return i.shape.element_type.is_floating


def _filled(i: HloInstruction, value: Any, editor: Editor) -> HloInstruction:
    return editor.full(value, i.shape.element_type, i.shape.dimensions)


_BY_ONE = {opcode for opcode, row in ROWS.items() if row.neutral == 1} - COMBINING
_SHIFTS = (Opcode.SHIFT_LEFT, Opcode.SHIFT_RIGHT_ARITHMETIC, Opcode.SHIFT_RIGHT_LOGICAL)
_ROUNDINGS = (Opcode.CEIL, Opcode.FLOOR, Opcode.ROUND_NEAREST_AFZ, Opcode.ROUND_NEAREST_EVEN)
_BY_ZERO = frozenset({Opcode.SUBTRACT, *_SHIFTS})
"""Operations that return the left operand if the right one is 1 (_BY_ONE) or 0 (_BY_ZERO)."""

_ONE_SIDED = _BY_ONE | _BY_ZERO

_DUAL = {
    Opcode.AND: Opcode.OR,
    Opcode.MAXIMUM: Opcode.MINIMUM,
    Opcode.MINIMUM: Opcode.MAXIMUM,
    Opcode.OR: Opcode.AND,
}
"""Operation on whole numbers -> the operation whose neutral element is its absorbing element."""


def _with_constants(
    i: HloInstruction,
) -> Iterator[tuple[HloInstruction, HloInstruction, Any]]:
    """Yield each operand that is paired with a constant one, that operand, and its value."""
    pairs = (i.operands, i.operands[::-1])
    for this, other in pairs[: 1 if i.opcode in _ONE_SIDED else 2]:
        value = splat(other)
        if value is not None:
            yield this, other, value


def simplify_constant(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """x + 0 of integers, x + -0 of floats, x * 1, x / 1 and similar ones are x.

    For whole numbers, products with 0, max(x, highest) and similar ones are the constant.
    """
    kind = i.shape.element_type
    if kind.is_complex:
        return None
    for this, other, value in _with_constants(i):
        is_one = i.opcode in _BY_ONE
        neutral = int(is_one) if i.opcode in _ONE_SIDED else neutral_of(i.opcode, kind)
        final = 0 if i.opcode is Opcode.MULTIPLY else neutral_of(_DUAL.get(i.opcode), kind)
        # Zeros are equal whatever their signs are.
        if value == neutral and np.signbit(float(value)) == np.signbit(float(neutral)):
            return this
        if _is_whole(i) and value == final:
            return other
    return None


def combine_with_itself(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """x - x of integers and xor(x, x) are 0; and(x, x), max(x, x) and similar ones are x."""
    lhs, rhs = i.operands
    if lhs is not rhs:
        return None
    if i.opcode in (Opcode.SUBTRACT, Opcode.XOR):
        return _filled(i, 0, editor) if _is_whole(i) else None
    return lhs


def simplify_divide(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Division by a power of two is multiplication by its exact reciprocal."""
    lhs, rhs = i.operands
    value = splat(rhs)
    is_known = value is not None and i.shape.element_type in (ElementType.F32, ElementType.F64)
    if not is_known or not np.isfinite(value) or value == 0:
        return None
    mantissa, exponent = np.frexp(value)
    if abs(mantissa) != 0.5 or abs(int(exponent)) > 120:
        return None
    reciprocal = _filled(i, 1 / value, editor)
    return editor.add(Opcode.MULTIPLY, (lhs, reciprocal))


def simplify_remainder(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """x % 1 of integers is 0."""
    value = splat(i.operands[1])
    if i.shape.element_type.is_integer and value is not None and int(value) == 1:
        return _filled(i, 0, editor)
    return None


def cancel_twice(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """neg(neg(x)) and not(not(x)) are x."""
    (operand,) = i.operands
    return operand.operands[0] if operand.opcode is i.opcode else None


def apply_once(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Applying abs, floor and similar operations twice is the same as once."""
    (operand,) = i.operands
    return operand if (operand.opcode, operand.attributes) == (i.opcode, i.attributes) else None


def simplify_log(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """log(exp(x - x)), also with 0 added inside, is x - x: from a log-softmax of one element."""
    if not _is_real_float(i):
        return None
    (power,) = i.operands
    if power.opcode is Opcode.ADD:
        power = next(
            (this for this, _, value in _with_constants(power) if float(value) == 0), power
        )
    if power.opcode is not Opcode.EXPONENTIAL:
        return None
    (exponent,) = power.operands
    is_nothing = exponent.opcode is Opcode.SUBTRACT and len(set(exponent.operands)) == 1
    return exponent if is_nothing else None


def simplify_power(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Small constant exponents as products, root and reciprocal."""
    base, exponent = i.operands
    value = splat(exponent)
    if value is None or i.shape.element_type.is_complex:
        return None
    power = float(value)
    if power == 0:
        return _filled(i, 1, editor)
    if power in (2, 3, 4):
        square = editor.add(Opcode.MULTIPLY, (base, base))
        other = {2: None, 3: base, 4: square}[int(power)]
        return square if other is None else editor.add(Opcode.MULTIPLY, (square, other))
    if not _is_real_float(i):
        return None
    if power == -1:
        return editor.add(Opcode.DIVIDE, (_filled(i, 1, editor), base))
    if power == 0.5 and i.shape.element_type.bit_width >= 16:
        return _root(i, base, editor)
    return None


def _root(i: HloInstruction, base: HloInstruction, editor: Editor) -> HloInstruction:
    """sqrt, but for -0, which becomes 0, and for -inf, which becomes inf."""
    root = editor.add(Opcode.SQRT, (editor.add(Opcode.ADD, (base, _filled(i, 0, editor))),))
    lowest = editor.compare(base, _filled(i, -np.inf, editor), ComparisonDirection.EQ)
    return editor.add(Opcode.SELECT, (lowest, _filled(i, np.inf, editor), root))


def simplify_select(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a select by constant or negated predicates, equal branches, or constant ones."""
    predicate, on_true, on_false = i.operands
    if on_true is on_false:
        return on_true
    value = splat(predicate)
    if value is not None:
        return on_true if value else on_false
    if predicate.opcode is Opcode.NOT:
        return editor.add(Opcode.SELECT, (predicate.operands[0], on_false, on_true))
    if i.shape.element_type is ElementType.PRED:
        yes, no = splat(on_true), splat(on_false)
        if yes is None or no is None:
            return None
        if bool(yes) == bool(no):
            return on_true
        if predicate.shape.compatible(i.shape):
            return predicate if yes else editor.add(Opcode.NOT, (predicate,))
    return None


def simplify_xor(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """xor with all bits set is `not` of the operand; with 0 it is the operand."""
    for this, _, value in _with_constants(i):
        if not value:
            return this
        if value == neutral_of(Opcode.AND, i.shape.element_type):
            return editor.add(Opcode.NOT, (this,))
    return None


def simplify_compare(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify comparisons of x with x, predicates with constants, non-negative numbers with 0."""
    lhs, rhs = i.operands
    if not _is_whole(lhs):
        return None
    direction = i.attributes.direction
    if lhs is rhs:
        holds = (ComparisonDirection.EQ, ComparisonDirection.GE, ComparisonDirection.LE)
        return _filled(i, direction in holds, editor)
    value = splat(rhs)
    if value is None:
        return None
    kind = lhs.shape.element_type
    if kind is ElementType.PRED:
        if direction in (ComparisonDirection.EQ, ComparisonDirection.NE):
            is_same = bool(value) == (direction is ComparisonDirection.EQ)
            return lhs if is_same else editor.add(Opcode.NOT, (lhs,))
        return None
    is_decided = direction in (ComparisonDirection.LT, ComparisonDirection.GE) and int(value) == 0
    if is_decided and (kind.is_unsigned_integer or _is_index(lhs)):
        return _filled(i, direction is ComparisonDirection.GE, editor)
    return None


def _is_index(i: HloInstruction) -> bool:
    """Return whether elements are those of an iota whose type has them all."""
    if i.opcode is not Opcode.IOTA:
        return False
    size = i.shape.dimensions[i.attributes.iota_dimension]
    return bool(size <= 1 << (i.shape.element_type.bit_width - 1))


_EXACT_IN_F32 = frozenset({ElementType.F16, ElementType.BF16})


def simplify_convert(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Drop conversions to the same type, and through a type that has all of the first's values."""
    (operand,) = i.operands
    target = i.shape.element_type
    if operand.shape.element_type is target:
        return operand
    if operand.opcode is not Opcode.CONVERT:
        return None
    (origin,) = operand.operands
    source, middle = origin.shape.element_type, operand.shape.element_type
    if _holds(middle, source):
        if source is target:
            return origin
        if source.is_integer or source is ElementType.PRED:
            return editor.add(Opcode.CONVERT, (origin,), ConvertAttributes(target))
    return None


def _holds(wide: ElementType, narrow: ElementType) -> bool:
    """Return whether a conversion to `wide` is exact and later conversions see no difference."""
    if narrow in _EXACT_IN_F32:
        return wide is ElementType.F32
    if narrow is ElementType.PRED:
        return wide.is_integer
    if not narrow.is_integer or not wide.is_integer or narrow.bit_width < 8:
        return False
    if narrow.is_signed_integer and wide.is_unsigned_integer:
        return False
    extra = wide.bit_width - narrow.bit_width
    return extra > 0 or (extra == 0 and narrow.is_signed_integer == wide.is_signed_integer)


ARITHMETIC_RULES: Mapping[Opcode, tuple[EditorRule, ...]] = {
    **dict.fromkeys(_ROUNDINGS, (apply_once,)),
    **dict.fromkeys(_DUAL, (combine_with_itself, simplify_constant)),
    Opcode.ABS: (apply_once,),
    Opcode.ADD: (simplify_constant,),
    Opcode.COMPARE: (simplify_compare,),
    Opcode.CONVERT: (simplify_convert,),
    Opcode.DIVIDE: (simplify_constant, simplify_divide),
    Opcode.LOG: (simplify_log,),
    Opcode.MULTIPLY: (simplify_constant,),
    Opcode.NEGATE: (cancel_twice,),
    Opcode.NOT: (cancel_twice,),
    Opcode.POWER: (simplify_constant, simplify_power),
    Opcode.REDUCE_PRECISION: (apply_once,),
    Opcode.REMAINDER: (simplify_remainder,),
    Opcode.SELECT: (simplify_select,),
    **dict.fromkeys(_SHIFTS, (simplify_constant,)),
    Opcode.SUBTRACT: (combine_with_itself, simplify_constant),
    Opcode.XOR: (combine_with_itself, simplify_xor),
}
