"""The exact remainder of floats: a GPU has no library function, and LLVM writes x - trunc(x/y) y.

Semantics: C's fmod, which XLA's remainder is; NaN where x is infinite or y is zero.
"""

from llvmlite import ir

from xla_server.codegen.functions.bits.words import I64, Word
from xla_server.codegen.functions.values import (
    FORMAT,
    ElementaryFunction,
    Format,
    Value,
    bits,
    of_bits,
    select,
    with_sign,
)
from xla_server.codegen.instructions.instruction import of_types
from xla_server.codegen.instructions.intrinsics import WORD_DIVISION, call
from xla_server.codegen.instructions.memory import COMPUTED


def _remainder(x: Value, y: Value) -> Value:
    """Divide the fraction of x by that of y by long division, several binary digits at a time.

    A product of a fraction with the power of two of these digits fits in 64 bits.
    """
    b, form = x.builder, x.format
    sizes = [Word(b, bits(abs(value)).code) for value in (x, y)]
    (whole, ahead), (divisor, exponent) = (_parts(size.resized(I64), form) for size in sizes)
    ahead, divisor = ahead - exponent, divisor.at_least(1)
    first, before = whole.made(b.urem(whole.code, divisor.code)), b.block
    test, inside, after = (b.function.append_basic_block(name) for name in ("test", "shift", "end"))
    b.branch(test)
    b.position_at_end(test)
    rest, left = (Word(b, b.phi(I64)) for _ in range(2))
    b.cbranch(left.signed(">", 0).code, inside, after)
    b.position_at_end(inside)
    most = 64 - form.fraction - 1
    amount = left.signed("<", most).choose(left, most)
    rest.code.add_incoming(first.code, before)
    rest.code.add_incoming(b.urem((rest << amount).code, divisor.code), inside)
    left.code.add_incoming(ahead.code, before)
    left.code.add_incoming((left - amount).code, inside)
    b.branch(test)
    b.position_at_end(after)
    word = _joined(rest, exponent, form).resized(sizes[0].type)
    product = x * y
    is_smaller = x.made(sizes[0].unsigned("<", sizes[1]).code, "b1")
    is_defined = (abs(x) < float("inf")) & y.differs(0.0) & y.equals(y)
    found = with_sign(of_bits(x.made(word.code, form.bits)), x)
    return select(is_defined, select(is_smaller, x, found), product / product)


def _parts(size: Word, form: Format) -> tuple[Word, Word]:
    """Return fraction and exponent of a finite number, from its bits without the sign.

    It is the fraction times 2^(exponent - 1) times the smallest subnormal number.
    """
    exponent, one = size >> form.fraction, 1 << form.fraction
    low, is_subnormal = size & (one - 1), exponent.unsigned("==", 0)
    return is_subnormal.choose(low, low | one), exponent.at_least(1)


def _joined(fraction: Word, exponent: Word, form: Format) -> Word:
    """Return the bits of a number from its parts, normalised as far as both allow."""
    zeros = call(fraction.builder, "llvm.ctlz", [fraction.code], ir.Constant(ir.IntType(1), 0))
    shift, lowest = fraction.made(zeros) - (64 - form.fraction - 1), exponent - 1
    moved = shift.signed("<", lowest).choose(shift, lowest)
    word = ((lowest - moved) << form.fraction) + (fraction << moved)
    return fraction.unsigned("==", 0).choose(fraction.constant(0), word)


_OF_FLOATS = {
    COMPUTED[name]: ElementaryFunction(f"rem_{name}", _remainder, 2, name) for name in FORMAT
}

DIVISION = {**WORD_DIVISION, "rem": of_types(_OF_FLOATS, WORD_DIVISION["rem"])}
"""Quotients and remainders of every type, by their names in kernels."""
