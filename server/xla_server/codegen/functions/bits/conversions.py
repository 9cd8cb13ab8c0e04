"""Conversions between numbers, and operations that read or truncate their bits.

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
"""Widths of the fields of floats by their own, and a mask of the exponent."""


def storage_of(element_type: ElementType) -> str:
    """The computed type of an integer type: the one of its own width or of a byte."""
    sign = "i" if element_type.is_signed_integer else "u"
    return f"{sign}{8 * element_type.byte_width}"


def _wrapped(word: Word, element_type: ElementType) -> Word:
    """An integer in a byte with only the low bits of a narrower one, its sign copied upwards."""
    unused = 8 - element_type.bit_width
    if element_type.is_signed_integer:
        return (word << unused).shifted_with_sign(unused)
    return word & ((1 << element_type.bit_width) - 1)


def _low_bits(element_type: ElementType) -> Any:
    storage, mask = storage_of(element_type), (1 << element_type.bit_width) - 1
    return function([storage], storage, lambda word: word & mask)


def _saturated(value: Word, element_type: ElementType) -> Word:
    """A float as an integer: towards zero, the nearest bound where too large, NaN as 0.

    The float is clamped before the conversion, as processors have both in vectors. LLVM converts
    vectors with the saturating intrinsic (llvm.fptosi.sat) number by number.
    """
    low, high = _bounds(element_type)
    convert = "fptosi" if low or element_type.bit_width < 32 else "fptoui"
    # Processors convert vectors of floats to vectors of these, not of narrower ones.
    converted = REGISTERS[f"i{max(32, element_type.bit_width)}"]
    number = value.ordered("==", value).choose(value, 0.0)
    number = number.ordered(">", float(low)).choose(number, float(low))
    if high.bit_length() <= (24 if value.type == F32 else 53):
        number = number.ordered("<", float(high)).choose(number, float(high))
        whole = number.converted(convert, converted)
        return whole.resized(REGISTERS[storage_of(element_type)])
    # The bound is no float, the number after it is.
    is_large = number.ordered(">=", float(high + 1))
    whole = is_large.choose(number.constant(0.0), number).converted(convert, converted)
    return is_large.choose(whole.constant(high), whole)


def _bounds(element_type: ElementType) -> tuple[int, int]:
    width = element_type.bit_width
    if element_type.is_signed_integer:
        return -(1 << (width - 1)), (1 << (width - 1)) - 1
    return 0, (1 << width) - 1


def _unbounded(largest: float) -> Any:
    """The largest number, of either sign, as infinity.

    XLA compares with the integer's bounds rounded to the float's type, where too large a bound
    becomes the largest number: that one saturates like an infinity.
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
        # NaN is not zero; a subnormal number is.
        return function([kind], "b1", lambda value: value.ordered("==", 0.0) ^ 1)
    return function([kind], "b1", lambda word: word.unsigned("!=", 0))


def _total_order(kind: str) -> Any:
    """Integers in the order -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN."""
    width = int(kind[1:])

    def formula(value: Word) -> Word:
        bits = value.as_bits()
        # The bits of negative numbers grow with their magnitude; all but the sign turn round.
        return bits.signed("<", 0).choose(bits ^ ((1 << (width - 1)) - 1), bits)

    return function([kind], f"i{width}", formula)


def _key(kind: str, *, nan_is_largest: bool) -> Any:
    """Integers in the order -Inf < ... < -0 < +0 < ... < +Inf, with any NaN at one end.

    It is the maximum, or minimum, of anything with it.
    """
    mask = (1 << (int(kind[1:]) - 1)) - 1

    def formula(value: Word) -> Word:
        bits = value.as_bits()
        # The bits of negative numbers grow with their magnitude; all but the sign turn round.
        key = bits ^ (bits.shifted_with_sign(int(kind[1:]) - 1) & mask)
        return value.ordered("==", value).choose(key, mask if nan_is_largest else ~mask)

    return function([kind], f"i{kind[1:]}", formula)


def _float_of_key(kind: str) -> Any:
    """The float of a key; a NaN of either kind is one again, a subnormal number zero."""
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
    """The bits of a float with its mantissa rounded and its exponent cut; NaN as it is."""
    width: int = bits.type.width
    own_mantissa, own_exponent = _MANTISSA[width], _EXPONENT[width]
    exponent_mask = ((1 << own_exponent) - 1) << own_mantissa
    own_bias = (1 << (own_exponent - 1)) - 1
    sign, size = bits & (1 << (width - 1)), bits & ((1 << (width - 1)) - 1)
    one = bits.constant(1)
    dropped = mantissa_bits.constant(own_mantissa) - mantissa_bits
    rounds = dropped.signed(">", 0)
    # Shifts by numbers that fit, where nothing is dropped too.
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
    """(operand, random bits, their number) to an integer: cut off, and away from zero at random.

    The random bits are a fraction; where it is below what is cut off the number is moved.
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
        f"round_{t.text}": function(
            [storage_of(t)], storage_of(t), partial(_wrapped, element_type=t)
        )
        for t in _INTEGERS
        if t.bit_width < 8
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
    # Its values are of F32, with a lower half of zeros: rounding to as many bits keeps it so.
    "reduce_precision_bf16": _reduce_precision("f32"),
    **{f"stochastic_{t.text}": _stochastic(t) for t in _INTEGERS if t.is_signed_integer},
}
"""Every function of this module by its name in kernels."""
