"""The exact remainder of floats: a GPU has no library function, and LLVM writes x - trunc(x/y) y.

Semantics: C's fmod, which XLA's remainder is; NaN where x is infinite or y is zero.
"""

import dataclasses
from typing import Any

from llvmlite import ir

from xla_server.codegen.functions.values import (
    FORMAT,
    ElementaryFunction,
    Value,
    bits,
    of_bits,
    select,
    with_sign,
)
from xla_server.codegen.instructions.instruction import of_types
from xla_server.codegen.instructions.intrinsics import WORD_DIVISION, call
from xla_server.codegen.instructions.memory import COMPUTED

_LONG = ir.IntType(64)


def _remainder(x: Value, y: Value) -> Value:
    """Divide the fraction of x by that of y by long division, several binary digits at a time.

    A product of a fraction with the power of two of these digits fits in 64 bits.
    """
    b, form = x.builder, x.format
    sizes = [bits(abs(value)) for value in (x, y)]
    parts = [_Parts.of(b, size.code, form.fraction) for size in sizes]
    digits = 64 - form.fraction - 1
    divisor = b.select(
        b.icmp_unsigned("==", parts[1].fraction, ir.Constant(_LONG, 0)),
        ir.Constant(_LONG, 1),
        parts[1].fraction,
    )
    before = b.block
    first = b.urem(parts[0].fraction, divisor)
    ahead = b.sub(parts[0].exponent, parts[1].exponent)
    test, inside, after = (b.function.append_basic_block(name) for name in ("test", "turn", "end"))
    b.branch(test)
    b.position_at_end(test)
    rest, left = b.phi(_LONG), b.phi(_LONG)
    b.cbranch(b.icmp_signed(">", left, ir.Constant(_LONG, 0)), inside, after)
    b.position_at_end(inside)
    most = ir.Constant(_LONG, digits)
    turn = b.select(b.icmp_signed("<", left, most), left, most)
    rest.add_incoming(first, before)
    rest.add_incoming(b.urem(b.shl(rest, turn), divisor), inside)
    left.add_incoming(ahead, before)
    left.add_incoming(b.sub(left, turn), inside)
    b.branch(test)
    b.position_at_end(after)
    found = with_sign(of_bits(x.made(_joined(b, rest, parts[1].exponent, form), form.bits)), x)
    product = x * y
    is_smaller = x.made(b.icmp_unsigned("<", sizes[0].code, sizes[1].code), "b1")
    is_finite = abs(x) < float("inf")
    is_defined = is_finite & y.differs(0.0) & y.equals(y)
    return select(is_defined, select(is_smaller, x, found), product / product)


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    """A finite number: `fraction` times 2^(exponent - 1) times the smallest subnormal number."""

    fraction: Any
    exponent: Any

    @classmethod
    def of(cls, b: Any, size: Any, fraction_bits: int) -> "_Parts":
        """Return the parts of the bits of a number without its sign."""
        word = size if size.type == _LONG else b.zext(size, _LONG)
        exponent = b.lshr(word, ir.Constant(_LONG, fraction_bits))
        one = ir.Constant(_LONG, 1 << fraction_bits)
        low = b.and_(word, ir.Constant(_LONG, (1 << fraction_bits) - 1))
        is_subnormal = b.icmp_unsigned("==", exponent, ir.Constant(_LONG, 0))
        return cls(
            b.select(is_subnormal, low, b.or_(low, one)),
            b.select(is_subnormal, ir.Constant(_LONG, 1), exponent),
        )


def _joined(b: Any, fraction: Any, exponent: Any, form: Any) -> Any:
    """Return the bits of a number from its parts, normalised as far as both allow."""
    spare = ir.Constant(_LONG, 64 - form.fraction - 1)
    room = b.sub(call(b, "llvm.ctlz", [fraction], ir.Constant(ir.IntType(1), 0)), spare)
    lowest = b.sub(exponent, ir.Constant(_LONG, 1))
    moved = b.select(b.icmp_signed("<", room, lowest), room, lowest)
    high = b.shl(b.sub(lowest, moved), ir.Constant(_LONG, form.fraction))
    word = b.add(high, b.shl(fraction, moved))
    is_zero = b.icmp_unsigned("==", fraction, ir.Constant(_LONG, 0))
    word = b.select(is_zero, ir.Constant(_LONG, 0), word)
    return word if form.bits == "i64" else b.trunc(word, ir.IntType(32))


_OF_FLOATS = {
    COMPUTED[name]: ElementaryFunction(f"rem_{name}", _remainder, 2, name) for name in FORMAT
}

DIVISION = {**WORD_DIVISION, "rem": of_types(_OF_FLOATS, WORD_DIVISION["rem"])}
"""Quotients and remainders of every type, by their names in kernels."""
