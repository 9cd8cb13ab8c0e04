"""Conversions between numeric types, orders of floats as integers, and reduced precision.

Semantics: XLA's CPU backend, as the evaluators of convert, compare, reduce-precision and
stochastic-convert have them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from xla_contract.types.element_type import ElementType
from xla_server.codegen.functions.bits.narrow_floats import FORMATS
from xla_server.codegen.functions.bits.words import F32, F64, Word, function
from xla_server.codegen.instructions.intrinsics import call
from xla_server.codegen.instructions.memory import COMPUTED, REGISTERS

_INTEGERS = tuple(kind for kind in ElementType if kind.is_integer)
_FLOATS = ("f32", "f64")
_MANTISSA = {16: 10, 32: 23, 64: 52}
_EXPONENT = {16: 5, 32: 8, 64: 11}
_EXPONENT_BITS = {32: 0xFF << 23, 64: 0x7FF << 52}
"""Widths of mantissa and exponent by the float's width, and masks of the exponent."""


def storage_of(element_type: ElementType) -> str:
    """Return the type in which an integer type is computed: its own, or a byte's if narrower."""
    sign = "i" if element_type.is_signed_integer else "u"
    return f"{sign}{8 * element_type.byte_width}"


def _wrapped(word: Word, element_type: ElementType) -> Word:
    """Wrap a byte to a narrower integer type, sign- or zero-extended to a byte again."""
    unused = 8 - element_type.bit_width
    if element_type.is_signed_integer:
        return (word << unused).shifted_with_sign(unused)
    return word & ((1 << element_type.bit_width) - 1)


def _low_bits(element_type: ElementType) -> Any:
    storage, mask = storage_of(element_type), (1 << element_type.bit_width) - 1
    return function([storage], storage, lambda word: word & mask)


def _saturated(value: Word, element_type: ElementType) -> Word:
    """Convert a float to an integer: truncated, saturated to the type's bounds, NaN to 0.

    The float is clamped before it is converted, both in vectors: LLVM scalarises the saturating
    conversion (llvm.fptosi.sat).
    """
    low, high = _bounds(element_type)
    convert = "fptosi" if low or element_type.bit_width < 32 else "fptoui"
    # Processors have vector conversions to integers of 32 and 64 bits, not to narrower ones.
    converted = REGISTERS[f"i{max(32, element_type.bit_width)}"]
    number = value.ordered("==", value).choose(value, 0.0)
    number = number.ordered(">", float(low)).choose(number, float(low))
    if high.bit_length() <= (24 if value.type == F32 else 53):
        number = number.ordered("<", float(high)).choose(number, float(high))
        whole = number.converted(convert, converted)
        return whole.resized(REGISTERS[storage_of(element_type)])
    # The upper bound is not exact as a float, but the next integer is.
    is_large = number.ordered(">=", float(high + 1))
    whole = is_large.choose(number.constant(0.0), number).converted(convert, converted)
    return is_large.choose(whole.constant(high), whole)


def _bounds(element_type: ElementType) -> tuple[int, int]:
    width = element_type.bit_width
    if element_type.is_signed_integer:
        return -(1 << (width - 1)), (1 << (width - 1)) - 1
    return 0, (1 << width) - 1


def _unbounded(largest: float) -> Any:
    """Return a function that maps the largest number of a type, of either sign, to infinity.

    XLA compares with the integer's bounds rounded to the float type. A bound beyond its range
    rounds to the largest number, which therefore saturates like an infinity.
    """

    def formula(value: Word) -> Word:
        sign = value.as_bits() & 0x80000000
        infinite = (sign | 0x7F800000).bitcast(F32)
        return value.size().ordered("==", largest).choose(infinite, value)

    return function(["f32"], "f32", formula)


def _largest(name: str) -> float:
    form = FORMATS[name]
    exponent, mantissa = divmod(form.largest, 1 << form.mantissa_bits)
    step = 2.0 ** (exponent - form.bias - form.mantissa_bits)
    return step * ((1 << form.mantissa_bits) + mantissa)


def _is_not_zero(kind: str) -> Any:
    if kind in _FLOATS:
        # NaN counts as not zero; subnormal numbers count as zero.
        return function([kind], "b1", lambda value: value.ordered("==", 0.0) ^ 1)
    return function([kind], "b1", lambda word: word.unsigned("!=", 0))


def _total_order(kind: str) -> Any:
    """Return the function to integers with the order -NaN < -Inf ... -0 < +0 ... +Inf < +NaN."""
    width = int(kind[1:])

    def formula(value: Word) -> Word:
        bits = value.as_bits()
        # The bits of negative numbers grow with their magnitude, so all but the sign are inverted.
        return bits.signed("<", 0).choose(bits ^ ((1 << (width - 1)) - 1), bits)

    return function([kind], f"i{width}", formula)


def _key(kind: str, *, nan_is_largest: bool) -> Any:
    """Return the function to integers with the order -Inf ... -0 < +0 ... +Inf, NaN at one end.

    So the maximum of keys, or their minimum, propagates NaN.
    """
    mask = (1 << (int(kind[1:]) - 1)) - 1

    def formula(value: Word) -> Word:
        bits = value.as_bits()
        # The bits of negative numbers grow with their magnitude, so all but the sign are inverted.
        key = bits ^ (bits.shifted_with_sign(int(kind[1:]) - 1) & mask)
        return value.ordered("==", value).choose(key, mask if nan_is_largest else ~mask)

    return function([kind], f"i{kind[1:]}", formula)


def _float_of_key(kind: str) -> Any:
    """Return the inverse of `_key`: NaN for a NaN's key, zero for a subnormal number's."""
    width = int(kind[1:])
    form = F32 if width == 32 else F64
    exponent = _EXPONENT_BITS[width]

    def formula(key: Word) -> Word:
        mask = (1 << (width - 1)) - 1
        bits = key ^ (key.shifted_with_sign(width - 1) & mask)
        is_small = (bits & exponent).unsigned("==", 0)
        return is_small.choose(bits & (1 << (width - 1)), bits).bitcast(form)

    return function([kind], f"f{width}", formula)


def reduced(bits: Word, exponent_bits: Word, mantissa_bits: Word) -> Word:
    """Round a float's mantissa and limit its exponent, as reduce-precision; NaN is unchanged."""
    width: int = bits.type.width
    own_mantissa, own_exponent = _MANTISSA[width], _EXPONENT[width]
    exponent_mask = ((1 << own_exponent) - 1) << own_mantissa
    own_bias = (1 << (own_exponent - 1)) - 1
    sign, size = bits & (1 << (width - 1)), bits & ((1 << (width - 1)) - 1)
    one = bits.constant(1)
    dropped = mantissa_bits.constant(own_mantissa) - mantissa_bits
    rounds = dropped.signed(">", 0)
    # The shift amount must be valid even if no bits are dropped.
    by = rounds.choose(dropped, 1).resized(bits.type)
    rounded = (size + ((size >> by) & 1) + (one << (by - 1)) - 1) >> by << by
    result = rounds.choose(rounded, size)
    few = exponent_bits.signed("<", own_exponent)
    bias = (one << few.choose(exponent_bits - 1, 0).resized(bits.type)) - 1
    exponents = result & exponent_mask
    highest = (bias + own_bias) << own_mantissa
    lowest = (bias.constant(own_bias) - bias) << own_mantissa
    cut = exponents.unsigned(">", highest).choose(bits.constant(exponent_mask), result)
    cut = exponents.unsigned("<=", lowest).choose(bits.constant(0), cut)
    result = few.choose(cut, result) | sign
    return size.unsigned(">", exponent_mask).choose(bits, result)


def _reduce_precision(kind: str) -> Any:
    def formula(value: Word, exponent_bits: Word, mantissa_bits: Word) -> Word:
        return reduced(value.as_bits(), exponent_bits, mantissa_bits).bitcast(value.type)

    return function([kind, "i32", "i32"], kind, formula)


def _stochastic(element_type: ElementType) -> Any:
    """Return the stochastic rounding of (operand, random bits, 2^number of bits) to an integer.

    The operand is truncated, and moved away from zero if the random bits, as a fraction, are below
    the fraction that was cut off.
    """
    storage = storage_of(element_type)
    low, high = _bounds(element_type)

    def formula(value: Word, drawn: Word, scale: Word) -> Word:
        whole = value.made(call(value.builder, "llvm.trunc", [value.code]))
        finite = value.size().ordered("<", float("inf"))
        fraction = (value - whole).size() * scale
        parts = finite.choose(fraction, 0.0).converted("fptoui", drawn.type)
        away = finite & drawn.unsigned("<", parts)
        nearest = _saturated(value, element_type)
        step = value.ordered("<", 0.0).choose(nearest.constant(-1), 1)
        moved = nearest + away.choose(step, 0)
        at_bound = value.ordered(">=", float(high)) | value.ordered("<=", float(low))
        return at_bound.choose(nearest, moved)

    return function(["f64", "u64", "f64"], storage, formula)


def _table(names: list[str], make: Callable[[str], Any], prefix: str) -> dict[str, Any]:
    return {f"{prefix}_{name}": make(name) for name in names}


FORMULAS: Mapping[str, Any] = {
    **{
        name: function([storage_of(t)], storage_of(t), partial(_wrapped, element_type=t))
        for t in _INTEGERS
        if t.bit_width < 8
        for name in (f"round_{t.text}", f"{t.text}_to_{storage_of(t)}")
    },
    **{f"low_bits_{t.text}": _low_bits(t) for t in _INTEGERS if t.bit_width < 8},
    **{
        f"saturate_{t.text}_{f}": function([f], storage_of(t), partial(_saturated, element_type=t))
        for t in _INTEGERS
        for f in _FLOATS
    },
    **{
        f"unbounded_{name}": _unbounded(_largest(name))
        for name, form in FORMATS.items()
        if not form.has_nan
    },
    **_table([n for n in COMPUTED if n[0] in "iuf"], _is_not_zero, "to_pred"),
    "to_pred_bf16": function(["f32"], "b1", lambda x: (x.as_bits() << 1).unsigned("!=", 0)),
    "to_pred_f8e8m0fnu": function(
        ["f32"], "b1", lambda x: (x.as_bits() & 0x7F800000).unsigned("!=", 0)
    ),
    **_table(list(_FLOATS), _total_order, "total_order"),
    **_table(list(_FLOATS), partial(_key, nan_is_largest=True), "maximum_key"),
    **_table(list(_FLOATS), partial(_key, nan_is_largest=False), "minimum_key"),
    **_table(["i32", "i64"], _float_of_key, "float_of_key"),
    **_table(list(_FLOATS), _reduce_precision, "reduce_precision"),
    # BF16 is computed in F32 with a lower half of zeros, which rounding to fewer bits preserves.
    "reduce_precision_bf16": _reduce_precision("f32"),
    **{f"stochastic_{t.text}": _stochastic(t) for t in _INTEGERS if t.is_signed_integer},
}
"""Every function of this module by its name in kernels."""
