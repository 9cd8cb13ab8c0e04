"""Conversions between F16 and F32, by a machine's instructions or by integer arithmetic.

Both forms have the same bits: rounding to nearest even, exact subnormal numbers, infinity on
overflow. A NaN of F32 becomes a quiet one with the upper bits of its payload; a NaN of F16 keeps
its bits, as the total order distinguishes them.

Without these instructions LLVM would call the compiler's runtime library, which is not loaded.
"""

import functools
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from xla_server.codegen.functions.bits.conversions import reduced
from xla_server.codegen.functions.bits.narrow_floats import rounded_to_odd
from xla_server.codegen.functions.bits.words import F32, I16, I32, Formula, Word, function
from xla_server.target.machine import Machine

_F32_SIGN, _F32_INFINITY = 0x80000000, 0x7F800000
_SIGN, _INFINITY, _QUIET = 0x8000, 0x7C00, 0x0200
"""Bits of F32 and F16: the sign, infinity, and the quiet bit of F16's NaNs."""

_DROPPED_BITS = 13
"""Fraction bits of F32 less those of F16."""

_BIAS_STEP = (127 - 15) << 23
"""The difference of the exponents' biases, in bits of F32."""

_SMALLEST_NORMAL = _BIAS_STEP + (1 << 23)
"""The bits of F32 of the smallest normal number of F16."""

_STEP = 2.0**-24
"""The smallest positive number of F16: subnormal numbers are multiples of it."""


def _quietly_widened_by_instruction(code: Word) -> Word:
    return code.bitcast(ir.HalfType()).converted("fpext", F32)


def _widened_by_instruction(code: Word) -> Word:
    bits = _quietly_widened_by_instruction(code).as_bits()
    # Processors set the quiet bit of signalling NaNs. Clearing it leaves an infinity unchanged.
    is_signalling = (code & 0x7E00).unsigned("==", _INFINITY)
    return is_signalling.choose(bits & 0xFFBFFFFF, bits).bitcast(F32)


def _narrowed_by_instruction(value: Word) -> Word:
    return value.converted("fptrunc", ir.HalfType()).bitcast(I16)


def _widened_by_integers(code: Word) -> Word:
    wide = code.resized(I32)
    size = wide & (_SIGN - 1)
    normal = (size << _DROPPED_BITS) + _BIAS_STEP
    # Infinity and NaN have the exponent of all ones, so their bias differs by twice the step.
    special = size.unsigned(">=", _INFINITY).choose(normal + _BIAS_STEP, normal)
    subnormal = (size.converted("sitofp", F32) * _STEP).as_bits()
    bits = size.unsigned("<", 1 << 10).choose(subnormal, special)
    return (bits | ((wide & _SIGN) << 16)).bitcast(F32)


def _narrowed_by_integers(value: Word) -> Word:
    bits = value.as_bits()
    size = bits & (_F32_SIGN - 1)
    odd = (size >> _DROPPED_BITS) & 1
    rounded = (size + odd + ((1 << (_DROPPED_BITS - 1)) - 1)) - _BIAS_STEP
    # A carry out of the largest number yields infinity; larger ones are clamped to it.
    normal = (rounded >> _DROPPED_BITS).at_most(_INFINITY)
    # A sum with this number rounds to a multiple of the step, and its low bits are the multiple.
    anchor = value.constant(_STEP * 2.0**23)
    subnormal = (size.bitcast(F32) + anchor).as_bits() - anchor.as_bits()
    code = size.unsigned("<", _SMALLEST_NORMAL).choose(subnormal, normal)
    nan = ((size >> _DROPPED_BITS) & 0x3FF) | (_INFINITY | _QUIET)
    code = size.unsigned(">", _F32_INFINITY).choose(nan, code)
    return (code | ((bits >> 16) & _SIGN)).resized(I16)


def half_of_f64(value: Word, machine: Machine) -> Word:
    """Return a number of F64 rounded to F16, as LLVM's type half."""
    by_instruction = machine.converts_halves
    narrow = _narrowed_by_instruction if by_instruction else _narrowed_by_integers
    return narrow(rounded_to_odd(value)).bitcast(ir.HalfType())


def _table(narrow: Formula, widen: Formula, widen_quiet: Formula) -> Mapping[str, Any]:
    """Return the functions by name. `widen_quiet` may set the quiet bit of a signalling NaN."""

    def round_(value: Word) -> Word:
        return widen_quiet(narrow(value))

    def reduce(value: Word, exponent_bits: Word, mantissa_bits: Word) -> Word:
        return widen_quiet(reduced(narrow(value), exponent_bits, mantissa_bits))

    return {
        "half_to_f32": function(["u16"], "f32", widen),
        "f32_to_half": function(["f32"], "u16", narrow),
        "round_f16": function(["f32"], "f32", round_),
        "reduce_precision_f16": function(["f32", "i32", "i32"], "f32", reduce),
    }


@functools.cache
def _functions(converts_halves: bool) -> Mapping[str, Any]:
    if converts_halves:
        by_instruction = (_widened_by_instruction, _quietly_widened_by_instruction)
        return _table(_narrowed_by_instruction, *by_instruction)
    return _table(_narrowed_by_integers, _widened_by_integers, _widened_by_integers)


def half_floats(machine: Machine) -> Mapping[str, Any]:
    """Return the functions of F16 for a machine, by their names in kernels."""
    return _functions(machine.converts_halves)
