"""Operations on the bits of integers: instructions for whole bytes, formulas for narrower types.

Semantics: XLA's CPU backend: shifts by the width or more shift everything out. Integers narrower
than a byte are passed sign- or zero-extended to a byte, and the caller wraps results.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llvmlite import ir

from xla_contract.types.element_type import ElementType
from xla_server.codegen.functions.bits.conversions import storage_of
from xla_server.codegen.functions.bits.words import Word, function
from xla_server.codegen.instructions.intrinsics import Builder, Values, call, is_signed, same_type

_NARROW = tuple(kind for kind in ElementType if kind.is_integer and kind.bit_width < 8)


def _shift(method: str, b: Builder, v: Values, t: Any) -> Any:
    x, amount = v
    width = ir.Constant(x.type, x.type.width)
    fits = b.icmp_unsigned("<", amount, width)
    if method == "ashr":
        return b.ashr(x, b.select(fits, amount, ir.Constant(x.type, x.type.width - 1)))
    zero = ir.Constant(x.type, 0)
    return b.select(fits, getattr(b, method)(x, b.select(fits, amount, zero)), zero)


def _masked_shift(method: str, b: Builder, v: Values, t: Any) -> Any:
    x, amount = v
    fits = b.icmp_unsigned("<", amount, ir.Constant(x.type, x.type.width))
    masked = b.and_(amount, ir.Constant(x.type, x.type.width - 1))
    return b.select(fits, getattr(b, method)(x, masked), ir.Constant(x.type, 0))


def _multiply_high(b: Builder, v: Values, t: Any) -> Any:
    narrow = v[0].type
    wide = ir.IntType(2 * narrow.width)
    extend = b.sext if is_signed(t) else b.zext
    product = b.mul(extend(v[0], wide), extend(v[1], wide))
    return b.trunc(b.lshr(product, ir.Constant(wide, narrow.width)), narrow)


INSTRUCTIONS: Mapping[str, Any] = {
    "clz": same_type(1, lambda b, v, t: call(b, "llvm.ctlz", v, ir.Constant(ir.IntType(1), 0))),
    "mulhi": same_type(2, _multiply_high),
    "popcnt": same_type(1, lambda b, v, t: call(b, "llvm.ctpop", v)),
    "shift_left": same_type(2, partial(_shift, "shl")),
    "shift_right_arithmetic": same_type(2, partial(_shift, "ashr")),
    "shift_right_logical": same_type(2, partial(_shift, "lshr")),
}
"""The operations on integers of 8 bits and more, by their names in kernels."""

MASKED_SHIFTS = {
    "shift_left": same_type(2, partial(_masked_shift, "shl")),
    "shift_right_logical": same_type(2, partial(_masked_shift, "lshr")),
}
"""Shifts for GPUs, with the amount masked to the width: PTX shifts clamp amounts of 32 bits, so
LLVM would drop the comparison with the width, even after it has truncated an amount of 64 bits."""


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
        # XLA counts the bits of the sign-extended byte for S4.
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
    **INSTRUCTIONS,
    **{name: f for kind in _NARROW for name, f in _bit_functions(kind).items()},
}
"""Every function of this module by its name in kernels."""
