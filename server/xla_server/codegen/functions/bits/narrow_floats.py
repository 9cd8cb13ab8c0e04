"""Conversions between F32 and narrower float types.

Semantics: ml_dtypes, which the evaluators use: rounding to nearest even. Overflow becomes infinity,
else NaN if the type has no infinity, else the largest number if it has no NaN either; NaN becomes
-0 then. Everything but the sum that rounds subnormal numbers works on bits, so that the processor's
mode for subnormal numbers does not matter. If a format has several NaNs, a NaN's code is stored in
the payload of its F32, so that copies preserve it and the total order distinguishes them; rounding
yields the usual NaN.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from xla_server.codegen.functions.bits.words import F32, F64, I8, I16, I32, I64, Word, function

_SIGN, _INFINITY, _NAN = 0x80000000, 0x7F800000, 0x7FC00000
_MANTISSA = 23
_BIAS = 127
"""Layout of F32: bits of its sign, infinity and NaN, bits of its fraction, bias of its exponent."""


@dataclasses.dataclass(frozen=True, slots=True)
class NarrowFormat:
    """A float of 8 bits or fewer with a sign.

    `largest` is the code of the largest number. `nan` is that of NaN, without the sign if NaN has
    one. The code after the largest number's is infinity, or NaN if there is no infinity. If `nan`
    is the code of -0, there is no -0. Without `has_nan` there is neither NaN nor infinity.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    nan: int
    has_nan: bool = True

    @property
    def sign(self) -> int:
        """The sign bit of a code."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def has_signed_zero(self) -> bool:
        """Return whether the type has a code for -0, distinct from NaN's."""
        return self.nan != self.sign or not self.has_nan

    @property
    def has_many_nans(self) -> bool:
        """Return whether NaN of one sign has more than one code."""
        return self.nan != self.largest + 1 and self.has_signed_zero and self.has_nan

    @property
    def step(self) -> float:
        """The smallest positive number."""
        return 2.0 ** (1 - self.bias - self.mantissa_bits)


FORMATS: Mapping[str, NarrowFormat] = {
    "f8e5m2": NarrowFormat(5, 2, 15, 0x7B, 0x7E),
    "f8e4m3": NarrowFormat(4, 3, 7, 0x77, 0x7C),
    "f8e3m4": NarrowFormat(3, 4, 3, 0x6F, 0x78),
    "f8e4m3fn": NarrowFormat(4, 3, 7, 0x7E, 0x7F),
    "f8e4m3b11fnuz": NarrowFormat(4, 3, 11, 0x7F, 0x80),
    "f8e5m2fnuz": NarrowFormat(5, 2, 16, 0x7F, 0x80),
    "f8e4m3fnuz": NarrowFormat(4, 3, 8, 0x7F, 0x80),
    "f4e2m1fn": NarrowFormat(2, 1, 1, 0x7, 0x8, has_nan=False),
    "f6e2m3fn": NarrowFormat(2, 3, 1, 0x1F, 0x20, has_nan=False),
    "f6e3m2fn": NarrowFormat(3, 2, 3, 0x1F, 0x20, has_nan=False),
}
"""The formats that differ in these numbers only; BF16 and F8E8M0FNU have functions of their own."""


def widened(code: Word, format: NarrowFormat) -> Word:
    """Return the number of a code, as F32."""
    sign = (code.resized(I32) & format.sign) << (31 - format.exponent_bits - format.mantissa_bits)
    size = code.resized(I32) & (format.sign - 1)
    normal = (size << (_MANTISSA - format.mantissa_bits)) + ((_BIAS - format.bias) << _MANTISSA)
    # A subnormal number is a multiple of the step; a shift alone would make it a subnormal F32.
    steps = size.converted("sitofp", F32) * format.step
    is_small = size.unsigned("<", 1 << format.mantissa_bits)
    bits = is_small.choose(steps.as_bits(), normal)
    if not format.has_nan:
        return (bits | sign).bitcast(F32)
    if not format.has_signed_zero:
        is_nan = (code.resized(I32) & 0xFF).unsigned("==", format.nan)
        return is_nan.choose(bits.constant(_SIGN | _NAN), bits | sign).bitcast(F32)
    first_special = format.largest + 1
    nan = size | _NAN if format.has_many_nans else bits.constant(_NAN)
    bits = size.unsigned(">=", first_special).choose(nan, bits)
    if format.has_many_nans:
        bits = size.unsigned("==", first_special).choose(bits.constant(_INFINITY), bits)
    return (bits | sign).bitcast(F32)


def nan_bits(code: int, format: NarrowFormat) -> int:
    """Return the bits of F32 that represent a NaN's code of a format with several NaNs."""
    return _NAN | (code & (format.sign - 1)) | (_SIGN if code & format.sign else 0)


def stored(value: Word, format: NarrowFormat) -> Word:
    """Return the code of a number of a format with many NaNs; for NaN that in its payload."""
    code = narrowed(value, format)
    bits = value.as_bits()
    payload = bits & (format.sign - 1)
    is_nan = (bits & (_SIGN - 1)).unsigned(">", _INFINITY)
    has_code = is_nan & payload.unsigned(">", format.largest + 1)
    return has_code.choose((code & format.sign) | payload.resized(I8), code)


def narrowed(value: Word, format: NarrowFormat) -> Word:
    """Round a number of F32 to the format and return its code; NaN becomes the usual one."""
    bits = value.as_bits()
    size = bits & (_SIGN - 1)
    sign = (bits >> (31 - format.exponent_bits - format.mantissa_bits)) & format.sign
    dropped = _MANTISSA - format.mantissa_bits
    odd = (size >> dropped) & 1
    rounded = (size + odd + ((1 << (dropped - 1)) - 1)) >> dropped
    normal = rounded - ((_BIAS - format.bias) << format.mantissa_bits)
    # The anchor's last bit is one step, so the sum rounds to a multiple of it.
    anchor = value.constant(format.step * 2**_MANTISSA)
    steps = (size.bitcast(F32) + anchor).as_bits() - anchor.as_bits()
    is_small = size.unsigned("<", (_BIAS - format.bias + 1) << _MANTISSA)
    code = is_small.choose(steps, normal)
    code = code.at_most(format.largest + 1 if format.has_nan else format.largest)
    is_nan = size.unsigned(">", _INFINITY)
    if format.has_nan:
        code = is_nan.choose(code.constant(format.nan), code)
    if format.has_signed_zero:
        code = code | sign
    else:
        code = code.unsigned("==", 0).choose(code, code | sign)
    if not format.has_nan:
        code = is_nan.choose(code.constant(format.nan), code)
    return code.resized(I8)


def _widened_bf16(code: Word) -> Word:
    return (code.resized(I32) << 16).bitcast(F32)


def _narrowed_bf16(value: Word) -> Word:
    bits = value.as_bits()
    rounded = bits + ((bits >> 16) & 1) + 0x7FFF
    is_number = value.ordered("==", value)
    return (is_number.choose(rounded, (bits & _SIGN) | _NAN) >> 16).resized(I16)


def _widened_scale(code: Word) -> Word:
    """Return the number of a code of F8E8M0FNU, an exponent of F32; the last code is NaN."""
    exponent = code.resized(I32)
    # A maximum, not a select: LLVM would evaluate functions of a selected subnormal constant.
    bits = (exponent << _MANTISSA).at_least(1 << (_MANTISSA - 1))
    return exponent.unsigned("==", 0xFF).choose(bits.constant(_NAN), bits).bitcast(F32)


def _narrowed_scale(value: Word) -> Word:
    """Round to the nearest power of two, ties up; return its code, NaN's if it is not positive."""
    bits = value.as_bits()
    half = 1 << (_MANTISSA - 1)
    code = (bits + half) >> _MANTISSA
    code = bits.unsigned("==", half).choose(code.constant(0), code)
    # True for zero, and for negative numbers and NaN, which are large as unsigned integers.
    outside = (bits - 1).unsigned(">=", _INFINITY - 1)
    return outside.choose(code.constant(0xFF), code).resized(I8)


def rounded_to_odd(value: Word) -> Word:
    """Round F64 to F32 by round-to-odd: truncated, with the last bit set if it was inexact.

    Rounding the result to a narrower type is the same as rounding the number directly.
    """
    near = value.converted("fptrunc", F32)
    back = near.converted("fpext", F64)
    bits = near.as_bits()
    # Truncated instead of rounded; infinity becomes the largest number.
    cut = back.size().ordered(">", value.size()).choose(bits - 1, bits) | 1
    return back.ordered("!=", value).choose(cut, bits).bitcast(F32)


def _scale_of_f64(value: Word) -> Word:
    """Round F64 to F8E8M0FNU, by way of F32 also for numbers that are subnormal in F32."""
    first, second = 2.0**-_BIAS, 2.0 ** (1 - _BIAS)
    code = _narrowed_scale(value.converted("fptrunc", F32)).resized(I32)
    # F8E8M0FNU has no value between its first two powers: such numbers round to the upper one.
    above_first = value.ordered(">", first + 2.0**-150)
    between = above_first.choose(code.constant(1), code.constant(0))
    code = value.ordered("<", second).choose(between, code)
    code = value.ordered("<", first).choose(code.constant(0xFF), code)
    return _widened_scale(code.resized(I8))


def _f64_of_scale(value: Word) -> Word:
    """Convert F8E8M0FNU to F64 by bits: the processor would take the smallest for zero."""
    bits = value.as_bits()
    wide = ((bits >> _MANTISSA).resized(I64) + (1023 - _BIAS)) << 52
    is_nan = bits.unsigned(">", _INFINITY)
    return is_nan.choose(wide.constant(0x7FF8 << 48), wide).bitcast(F64)


def _of_format(name: str, format: NarrowFormat) -> dict[str, Any]:
    widen, narrow, store = (partial(each, format=format) for each in (widened, narrowed, stored))
    return _pair(name, "u8", widen, narrow, store if format.has_many_nans else None)


def _pair(
    name: str, storage: str, widen: Any, narrow: Any, store: Any | None = None
) -> dict[str, Any]:
    return {
        f"{name}_to_f32": function([storage], "f32", widen),
        f"f32_to_{name}": function(["f32"], storage, store or narrow),
        f"round_{name}": function(["f32"], "f32", lambda value: widen(narrow(value))),
        **({f"code_{name}": function(["f32"], storage, narrow)} if store is not None else {}),
    }


FORMULAS: Mapping[str, Any] = {
    **_pair("bf16", "u16", _widened_bf16, _narrowed_bf16),
    **_pair("f8e8m0fnu", "u8", _widened_scale, _narrowed_scale),
    **{key: f for name, form in FORMATS.items() for key, f in _of_format(name, form).items()},
    "f64_to_odd_f32": function(["f64"], "f32", rounded_to_odd),
    "f64_to_f8e8m0fnu": function(["f64"], "f32", _scale_of_f64),
    "f8e8m0fnu_to_f64": function(["f32"], "f64", _f64_of_scale),
}
"""Every function of this module by its name in kernels."""
