"""Quotients and roots of complex numbers; rsqrt and sign of floats too."""

import math
from collections.abc import Callable

from xla_server.codegen.functions import values as real
from xla_server.codegen.functions.complex.complex_values import (
    HUGE,
    Complex,
    choose,
    complex_family,
    function,
    is_finite,
    is_infinite,
    magnitude,
    sines,
    undefined,
)
from xla_server.codegen.functions.real import inverse_trigonometric
from xla_server.codegen.functions.values import Value, family, select, with_sign

_ProductSum = Callable[[Value, Value, Value], Value]
"""Function from x, y and z to x * y + z."""


def _rounded_twice(x: Value, y: Value, z: Value) -> Value:
    return x * y + z


def div(x: Complex, y: Complex) -> Complex:
    """Return x / y, with infinities as in C's Annex G: infinite by zero, zero by infinity."""
    quotient = divided(x, y)
    too_small = _is_undefined(quotient) & y.is_infinite() & x.is_finite()
    quotient = choose(too_small, _in_direction(0, x, _ends(y)), quotient)
    return _with_infinities(quotient, x, y)


def div_c64(x: Complex, y: Complex) -> Complex:
    """Return the same for C64, whose products and squares F64 has without overflow or underflow.

    Both sums are rounded once, and one division is left. The larger part of the divisor is made
    positive, so that zeros have the signs that Smith's method gives them.
    """
    infinite = y.is_infinite()
    (a, b), (c, d), (e, f) = (
        (z.real, z.imag) for z in map(_wide, (x, y, choose(infinite, _ends(y), y)))
    )
    turned = abs(y.imag) > abs(y.real)
    longer = real.bits(select(turned, d, c)) & -(1 << 63)
    # Neither of two infinite parts is the larger one.
    negative = select(is_finite(y.real) | is_finite(y.imag), longer, 0)
    inverse = select(infinite, c.constant(0), 1 / real.fma(c, c, d * d))
    e, f, inverse = (real.of_bits(real.bits(part) ^ negative) for part in (e, f, inverse))
    across = select(turned, a * f - b * e, b * e - a * f) * inverse
    quotient = Complex(real.fma(a, e, b * f) * inverse, select(turned, -across, across))
    quotient = _with_infinities(quotient, x, y)
    return Complex(real.to("f32", quotient.real), real.to("f32", quotient.imag))


def _wide(z: Complex) -> Complex:
    return Complex(real.to("f64", z.real), real.to("f64", z.imag))


def _is_undefined(z: Complex) -> Value:
    return z.real.differs(z.real) & z.imag.differs(z.imag)


def _with_infinities(quotient: Complex, x: Complex, y: Complex) -> Complex:
    """Replace an undefined quotient of an infinite number, or one by zero; a sum is in F64."""
    is_undefined, too_large = _is_undefined(quotient), x.is_infinite() & y.is_finite()
    ends, x, y = map(_wide, (_ends(x), x, y))
    quotient = choose(is_undefined & too_large, _in_direction(math.inf, ends, y), quotient)
    infinite = with_sign(y.real.constant(math.inf), y.real)
    by_zero = Complex(infinite * x.real, infinite * x.imag)
    return choose(is_undefined & y.is_zero(), by_zero, quotient)


def divided(x: Complex, y: Complex, product_sum: _ProductSum = _rounded_twice) -> Complex:
    """Return x / y by Smith's method, which divides by y's larger part and squares nothing."""
    turned = ~(abs(y.real) >= abs(y.imag))
    c, d = select(turned, y.imag, y.real), select(turned, y.real, y.imag)
    a, b = select(turned, x.imag, x.real), select(turned, x.real, x.imag)
    ratio = d / c
    below = product_sum(d, ratio, c)
    first, second = product_sum(b, ratio, a) / below, product_sum(-a, ratio, b) / below
    return Complex(first, select(turned, -second, second))


def _ends(z: Complex) -> Complex:
    """Return 1 for infinite parts and 0 for others, with their signs."""
    parts = (z.real, z.imag)
    sizes = (select(is_infinite(part), part.constant(1), part.constant(0)) for part in parts)
    return Complex(*map(with_sign, sizes, parts))


def _in_direction(size: float, x: Complex, y: Complex) -> Complex:
    factor = x.real.constant(size)
    turned = x * y.conjugate()
    return Complex(factor * turned.real, factor * turned.imag)


def sqrt(z: Complex) -> Complex:
    """Return the principal square root; an imaginary part of -0 is treated as 0."""
    x, y = z.real, z.imag + 0.0
    large = (abs(x) > HUGE) | (abs(y) > HUGE)
    small = (abs(x) < 1 / HUGE) & (abs(y) < 1 / HUGE)
    scale = select(large, x.constant(2.0**-4), select(small, x.constant(2.0**60), x.constant(1)))
    scaled = Complex(x * scale, y * scale)
    # This is the size of the root's real part if x is not negative, else of its imaginary part.
    part = real.sqrt((abs(scaled.real) + magnitude(scaled)) * 0.5)
    rest = abs(scaled.imag) / (part + part)
    back = select(large, x.constant(4), select(small, x.constant(2.0**-30), x.constant(1)))
    part, rest = part * back, select(part.equals(0), x.constant(0), rest * back)
    root = Complex(select(x < 0, rest, part), with_sign(select(x < 0, part, rest), y))
    endless = Complex(x.constant(math.inf), y)
    return undefined(z.is_nan(), choose(is_infinite(y), endless, root))


def unadjusted_sqrt(z: Complex) -> Complex:
    """Return the square root whose imaginary part has the sign of z's, of -0 too."""
    root = sqrt(z)
    return Complex(root.real, with_sign(root.imag, z.imag))


def rsqrt(x: Value) -> Value:
    """Return 1 / sqrt(x) with two roundings, as XLA does."""
    return 1 / real.sqrt(x)


def complex_rsqrt(z: Complex) -> Complex:
    """Return 1 / sqrt(z), computed in polar form: 0 at infinity."""
    size = 1 / real.sqrt(magnitude(z))
    turn = inverse_trigonometric.atan2(z.imag, z.real) * -0.5
    turn = select(z.is_zero(), turn.constant(0), turn)
    sine, cosine = sines(turn)
    root = Complex(size * cosine, size * sine)
    zero = z.real.constant(0)
    return choose(z.is_infinite(), Complex(zero, zero), root)


def sign(x: Value) -> Value:
    """Return 1, 0 or NaN with the sign of x; 0 for subnormal numbers if the mode flushes them."""
    size = select(abs(x) > 0, x.constant(1), x.constant(0))
    return select(x.differs(x), x, with_sign(size, x))


def complex_sign(z: Complex) -> Complex:
    """z / |z|, and zero at zero."""
    size = magnitude(z)
    return choose(z.is_zero(), z, Complex(z.real / size, z.imag / size))


FORMULAS = {
    **complex_family(div, operands=2),
    "div_c64": function(["c64"] * 2, "c64", div_c64),
    **complex_family(sqrt, complex_rsqrt, complex_sign),
    **family(rsqrt, sign),
}
"""Every function of this module by its name in kernels."""
