"""Inverse trigonometric and hyperbolic functions of complex numbers."""

import math
from collections.abc import Callable

from xla_server.codegen.functions import values as real
from xla_server.codegen.functions.complex import complex_arctangent
from xla_server.codegen.functions.complex.complex_logarithm import log
from xla_server.codegen.functions.complex.complex_values import (
    HUGE,
    Complex,
    choose,
    complex_family,
    is_infinite,
)
from xla_server.codegen.functions.complex.quotients_and_roots import divided, unadjusted_sqrt
from xla_server.codegen.functions.real import inverse_trigonometric, logarithm
from xla_server.codegen.functions.values import Value, select, with_sign

_SMALL = 2.0**-6
"""Bound of both parts' sizes below which the arc sine is computed by its series."""

_ASIN_SERIES = (1 / 6, 3 / 40, 5 / 112, 35 / 1152, 63 / 2816)
"""Coefficients of z^3, z^5 ... in the arc sine of z."""


def _reduced(z: Complex) -> tuple[Complex, Callable[[Value], Value]]:
    """Scale z if the products of Kahan's formulas would overflow; return it and a correction.

    Angles do not change. The inverse hyperbolic sine of such numbers is a logarithm, so the
    correction adds that of the scale.
    """
    huge = (abs(z.real) > HUGE) | (abs(z.imag) > HUGE)
    scale = select(huge, z.real.constant(2.0**-100), z.real.constant(1))

    def back(y: Value) -> Value:
        # Adding -0 preserves the signs of zeros.
        return y + select(huge, with_sign(y.constant(100 * math.log(2)), y), y.constant(-0.0))

    return Complex(z.real * scale, z.imag * scale), back


def acos(z: Complex) -> Complex:
    """The arc cosine, by Kahan's formulas."""
    z, back = _reduced(z)
    below, above = unadjusted_sqrt(z.one_minus()), unadjusted_sqrt(z.plus_one())
    x = inverse_trigonometric.atan2(below.real, above.real) * 2
    x = select(z.real.equals(0) & z.is_nan(), x.constant(math.pi / 2), x)
    y = back(logarithm.asinh((above.conjugate() * below).imag))
    end = inverse_trigonometric.atan2(abs(z.imag), z.real)
    far = Complex(end, with_sign(y.constant(math.inf), -z.imag))
    return choose(z.is_infinite(), far, Complex(x, y))


def asin(z: Complex) -> Complex:
    """The arc sine, by Kahan's formulas."""
    z, back = _reduced(z)
    below, above = unadjusted_sqrt(z.one_minus()), unadjusted_sqrt(z.plus_one())
    x = inverse_trigonometric.atan2(z.real, (below * above).real)
    x = select(z.real.equals(0), z.real, x)
    y = back(logarithm.asinh((below.conjugate() * above).imag))
    end = inverse_trigonometric.atan2(z.real, abs(z.imag))
    far = Complex(end, with_sign(y.constant(math.inf), z.imag))
    small = (abs(z.real) < _SMALL) & (abs(z.imag) < _SMALL)
    result = choose(small, _asin_of_small(z), Complex(x, y))
    return choose(z.is_infinite(), far, result)


def _asin_of_small(z: Complex) -> Complex:
    """Return the arc sine by its series, whose first term is exact."""
    square = z * z
    factor = Complex(z.real.constant(_ASIN_SERIES[-1]), z.real.constant(0))
    for coefficient in _ASIN_SERIES[-2::-1]:
        factor = factor * square
        factor = Complex(factor.real + coefficient, factor.imag)
    result = z + z * (square * factor)
    # The series would lose the signs of zeros.
    return Complex(
        select(z.real.equals(0), z.real, result.real),
        select(z.imag.equals(0), z.imag, result.imag),
    )


def acosh(z: Complex) -> Complex:
    """The inverse hyperbolic cosine, by Kahan's formulas."""
    z, back = _reduced(z)
    below, above = unadjusted_sqrt(-z.one_minus()), unadjusted_sqrt(z.plus_one())
    x = back(logarithm.asinh((below.conjugate() * above).real))
    y = inverse_trigonometric.atan2(below.imag, above.real) * 2
    y = select(z.real.equals(0) & z.is_nan(), y.constant(math.pi / 2), y)
    end = inverse_trigonometric.atan2(z.imag, z.real)
    far = Complex(x.constant(math.inf), end)
    return choose(z.is_infinite(), far, Complex(x, y))


def asinh(z: Complex) -> Complex:
    """Return the inverse hyperbolic sine, -i asin(i z)."""
    return asin(z.times_i()).over_i()


def atanh(z: Complex) -> Complex:
    """Return the inverse hyperbolic tangent: infinite at 1 and -1, i pi/2 at infinity."""
    x, y = abs(z.real), z.imag
    beside = 1 - x
    gap = real.fma(beside, beside, y * y)
    size = logarithm.log1p(x * 4 / gap) * 0.25
    # The square of y underflows this near to the poles.
    at_pole = x.equals(1) & (abs(y) < 2.0**-100)
    size = select(at_pole, logarithm.log(2 / abs(y)) * 0.5, size)
    huge = (x > 2.0**300) | (abs(y) > 2.0**300)
    size = select(huge & (z.is_infinite() | ~z.is_nan()), size.constant(0), size)
    angle = inverse_trigonometric.atan2(y * 2, beside * (x + 1) - y * y) * 0.5
    quarter = with_sign(angle.constant(math.pi / 2), y)
    unknown = z.is_nan() & ~is_infinite(y)
    nothing_across = select(is_infinite(x) & z.is_nan(), y, select(unknown, y + x, quarter))
    angle = select(huge, nothing_across, angle)
    on_axis = x.equals(0) & y.differs(y)
    return Complex(with_sign(select(on_axis, x, size), z.real), angle)


def atan(z: Complex) -> Complex:
    """Return the arc tangent, -i atanh(i z)."""
    return atanh(z.times_i()).over_i()


def atan2(y: Complex, x: Complex) -> Complex:
    """Return -i log((x + i y) / sqrt(x x + y y)), the real atan2 continued to complex numbers."""
    sizes = ((abs(z.real), abs(z.imag)) for z in (x, y))
    largest, of_y = (select(beside > along, beside, along) for along, beside in sizes)
    size = select(of_y > largest, of_y, largest)
    large, small = size > 2.0**300, size < 2.0**-300
    one = size.constant(1)
    scale = select(large, one * 2.0**-700, select(small, one * 2.0**700, one))
    a, b = (Complex(z.real * scale, z.imag * scale) for z in (y, x))
    formula = log(divided(b + a.times_i(), unadjusted_sqrt(b * b + a * a))).over_i()
    # The formula has the right special values, but its logarithm cancels for arguments near 1.
    is_quotient = of_y < largest * 2.0**-40
    near = choose(is_quotient, divided(y, x), complex_arctangent.arctangent(a, b))
    precise = complex_arctangent.with_half_turn(near, a, b, formula)
    return choose(formula.is_finite(), precise, formula)


FORMULAS = {
    **complex_family(acos, acosh, asin, asinh, atan, atanh),
    **complex_family(atan2, operands=2),
}
"""Every function of this module by its name in kernels."""
