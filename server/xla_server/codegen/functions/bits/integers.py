"""Functions of integers that are no instructions: powers, signs, bits of types under a byte.

Semantics: XLA's CPU backend, as the evaluators have them. Integers narrower than a byte come in
a byte, their sign copied upwards, and results are wrapped afterwards.
"""

from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir

from xla_contract.types.element_type import ElementType
from xla_server.codegen.functions.bits.conversions import storage_of
from xla_server.codegen.functions.bits.words import Word, function
from xla_server.codegen.instructions.intrinsics import call
from xla_server.ops.elementwise.rows.exponential import EXPONENT_BITS

_STORAGES = tuple(f"{kind}{width}" for kind in "iu" for width in (8, 16, 32, 64))
_NARROW = tuple(kind for kind in ElementType if kind.is_integer and kind.bit_width < 8)


def _power(base: Word, exponent: Word) -> Word:
    """Base to the exponent, wrapping; negative exponents leave 0 except of 1 and -1.

    If the exponent is not negative, only its low 6 bits count. Unsigned numbers are read as signed
    ones.
    """
    result, square = base.constant(1), base
    for position in range(EXPONENT_BITS):
        is_set = ((exponent >> position) & 1).unsigned("!=", 0)
        result = is_set.choose(result * square, result)
        square = square * square
    sign = (exponent & 1).unsigned("!=", 0).choose(base, 1)
    is_unit = base.unsigned("==", 1).choose(base.constant(1), 0) | base.unsigned("==", -1).choose(
        base.constant(1), 0
    )
    reciprocal = is_unit.unsigned("!=", 0).choose(sign, 0)
    return exponent.signed("<", 0).choose(reciprocal, result)


def _sign(number: Word) -> Word:
    positive = number.signed(">", 0).choose(number.constant(1), 0)
    return number.signed("<", 0).choose(number.constant(-1), positive)


def _bit_functions(element_type: ElementType) -> dict[str, Any]:
    storage, width = storage_of(element_type), element_type.bit_width
    unused = 8 - width

    def bits(word: Word) -> Word:
        return word & ((1 << width) - 1)

    def counted(name: str, word: Word, *extra: Any) -> Word:
        return word.made(call(word.builder, name, [word.code], *extra))

    def leading(word: Word) -> Word:
        of_zero_too = ir.Constant(ir.IntType(1), 0)
        return counted("llvm.ctlz", bits(word), of_zero_too) - unused

    def population(word: Word) -> Word:
        # XLA counts the copies of S4's sign.
        all_of_it = element_type is ElementType.S4
        return counted("llvm.ctpop", word if all_of_it else bits(word))

    def shifted(move: Callable[[Word, Word], Word]) -> Callable[[Word, Word], Word]:
        def formula(word: Word, amount: Word) -> Word:
            by = bits(amount)
            fits = by.unsigned("<", width)
            return fits.choose(move(bits(word), fits.choose(by, 0)), 0)

        return formula

    def arithmetic(word: Word, amount: Word) -> Word:
        extended = (word << unused).shifted_with_sign(unused)
        return extended.shifted_with_sign(bits(amount).at_most(width - 1))

    def high(left: Word, right: Word) -> Word:
        return (left * right).shifted_with_sign(width)

    def high_unsigned(left: Word, right: Word) -> Word:
        return (left * right) >> width

    binary: dict[str, Any] = {
        "shift_left": shifted(lambda word, by: word << by),
        "shift_right_logical": shifted(lambda word, by: word >> by),
        "shift_right_arithmetic": arithmetic,
        "mulhi": high if element_type.is_signed_integer else high_unsigned,
    }
    unary = {"clz": leading, "popcnt": population}
    name = element_type.text
    return {
        **{f"{key}_{name}": function([storage], storage, f) for key, f in unary.items()},
        **{f"{key}_{name}": function([storage] * 2, storage, f) for key, f in binary.items()},
    }


FORMULAS: Mapping[str, Any] = {
    **{f"pow_{kind}": function([kind, kind], kind, _power) for kind in _STORAGES},
    **{f"sign_{kind}": function([kind], kind, _sign) for kind in _STORAGES if kind[0] == "i"},
    **{key: f for kind in _NARROW for key, f in _bit_functions(kind).items()},
}
"""Every function of this module by its name in kernels."""
