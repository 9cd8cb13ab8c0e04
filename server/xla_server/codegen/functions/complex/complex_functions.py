"""Elementary functions of complex numbers, computed in double precision.

Semantics: XLA's CPU backend, as the evaluators have it: the same special values, and errors of a
few ulp of the larger part, or of 1 if both are smaller.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from xla_server.codegen.functions import values as real
from xla_server.codegen.functions.complex import complex_arctangent, complex_power
from xla_server.codegen.functions.complex.complex_values import (
    Complex,
    choose,
    function,
    is_finite,
    is_infinite,
    magnitude,
)
from xla_server.codegen.functions.real import (
    exponential,
    inverse_trigonometric,
    logarithm,
    power,
)
from xla_server.codegen.functions.real.trigonometric import (
    cos_f64_inline,
    sin_f64_inline,
    tan_f64_inline,
)
from xla_server.codegen.functions.values import Value, select, with_sign

_HUGE = 2.0**1000
"""Sums and sizes of smaller numbers are finite."""

_SMALL = 2.0**-6
"""Parts of numbers whose arc sine is the sum of a few terms."""

_ASIN_SERIES = (1 / 6, 3 / 40, 5 / 112, 35 / 1152, 63 / 2816)
"""Coefficients of z^3, z^5 ... in the arc sine of z."""


def _undefined(where: Value, z: Complex) -> Complex:
    nan = z.real.constant(math.nan)
    return choose(where, Complex(nan, nan), z)


def _one(z: Complex) -> Complex:
    return Complex(z.real.constant(1), z.real.constant(0))


_ProductSum = Callable[[Value, Value, Value], Value]
"""Function from x, y and z to x * y + z."""


def _rounded_twice(x: Value, y: Value, z: Value) -> Value:
    return x * y + z


def divide(x: Complex, y: Complex) -> Complex:
    """x / y, where infinite numbers are as in C's Annex G: by zero infinite, by infinite zero."""
    quotient = _divided(x, y)
    infinite = with_sign(y.real.constant(math.inf), y.real)
    both_nan = x.real.differs(x.real) & x.imag.differs(x.imag)
    by_zero = y.is_zero() & ~both_nan
    undefined = quotient.real.differs(quotient.real) & quotient.imag.differs(quotient.imag)
    quotient = choose(by_zero, Complex(infinite * x.real, infinite * x.imag), quotient)
    undefined = undefined & ~by_zero
    x_finite, y_finite = (is_finite(side.real) & is_finite(side.imag) for side in (x, y))
    too_large = undefined & x.is_infinite() & y_finite
    quotient = choose(too_large, _in_direction(math.inf, _ends(x), y), quotient)
    too_small = undefined & y.is_infinite() & x_finite
    return choose(too_small, _in_direction(0, x, _ends(y)), quotient)


def _divided(x: Complex, y: Complex, product_sum: _ProductSum = _rounded_twice) -> Complex:
    """Smith's quotient: by the larger part of y first, so that no square is taken."""
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
    """The root with a real part that is not negative; below a cut of -0 as below one of 0."""
    x, y = z.real, z.imag + 0.0
    large = (abs(x) > _HUGE) | (abs(y) > _HUGE)
    small = (abs(x) < 1 / _HUGE) & (abs(y) < 1 / _HUGE)
    scale = select(large, x.constant(2.0**-4), select(small, x.constant(2.0**60), x.constant(1)))
    scaled = Complex(x * scale, y * scale)
    # The root of half the sum: of the real part's size if that is not negative, else the other's.
    part = real.sqrt((abs(scaled.real) + magnitude(scaled)) * 0.5)
    rest = abs(scaled.imag) / (part + part)
    back = select(large, x.constant(4), select(small, x.constant(2.0**-30), x.constant(1)))
    part, rest = part * back, select(part.equals(0), x.constant(0), rest * back)
    root = Complex(select(x < 0, rest, part), with_sign(select(x < 0, part, rest), y))
    endless = Complex(x.constant(math.inf), y)
    return _undefined(z.is_nan(), choose(is_infinite(y), endless, root))


def rsqrt(z: Complex) -> Complex:
    """1 / sqrt(z), by size and angle: 0 at infinity."""
    size = 1 / real.sqrt(magnitude(z))
    turn = inverse_trigonometric.atan2(z.imag, z.real) * -0.5
    turn = select(z.is_zero(), turn.constant(0), turn)
    root = Complex(size * cos_f64_inline(turn), size * sin_f64_inline(turn))
    zero = z.real.constant(0)
    return choose(z.is_infinite(), Complex(zero, zero), root)


def sign(z: Complex) -> Complex:
    """z / |z|, and zero at zero."""
    size = magnitude(z)
    return choose(z.is_zero(), z, Complex(z.real / size, z.imag / size))


def exp(z: Complex) -> Complex:
    """e to the z, NaN where the angle is not finite."""
    large = z.real > 709
    half = exponential.precise_exp(select(large, z.real * 0.5, z.real))
    again = select(large, half, half.constant(1))
    x = half * cos_f64_inline(z.imag) * again
    y = half * sin_f64_inline(z.imag) * again
    result = Complex(x, select(z.imag.equals(0), z.imag, y))
    return _undefined(~is_finite(z.imag), result)


def expm1(z: Complex) -> Complex:
    """exp(z) - 1; of real numbers a real one, too large or NaN as it may be."""
    half_sine = sin_f64_inline(z.imag * 0.5)
    x = exponential.expm1(z.real) * cos_f64_inline(z.imag) - half_sine * half_sine * 2
    y = exponential.exp(z.real) * sin_f64_inline(z.imag)
    return Complex(x, select(z.imag.equals(0), z.imag, y))


def log(z: Complex) -> Complex:
    """The natural logarithm, NaN where a part is NaN, even beside an infinite one."""
    large = (abs(z.real) > _HUGE) | (abs(z.imag) > _HUGE)
    scale = select(large, z.real.constant(2.0**-4), z.real.constant(1))
    scaled = Complex(z.real * scale, z.imag * scale)
    size = logarithm.log(magnitude(scaled))
    size = size + select(large, size.constant(4 * math.log(2)), size.constant(0))
    x, y = abs(z.real), abs(z.imag)
    x, y = select(y > x, y, x), select(y > x, x, y)
    # Near a size of 1 the logarithm is far smaller than what the size is rounded by.
    near = (x >= 0.5) & (x <= 2)
    size = select(near, _log_near_one(select(near, x, 1.0), select(near, y, 0.0)), size)
    return _undefined(z.is_nan(), Complex(size, inverse_trigonometric.atan2(z.imag, z.real)))


def _log_near_one(x: Value, y: Value) -> Value:
    """log sqrt(x^2 + y^2) by (x - 1)(x + 1) + y^2, for 2 >= x >= y >= 0 and x >= 1/2."""
    above, above_low = real.exact_sum(x, x.constant(1))
    below = x - 1
    first, first_low = real.exact_product(below, above)
    second, second_low = real.exact_product(y, y)
    total, low = real.exact_sum(first, second)
    low = low + (first_low + second_low + below * above_low)
    return logarithm.log1p(total + low) * 0.5


def log1p(z: Complex) -> Complex:
    """log(1 + z), exact near zero too."""
    size = magnitude(z.plus_one())
    near_one = abs(size - 1) < 0.5
    x, y = (select(near_one, part, part.constant(0)) for part in (z.real, z.imag))
    above, above_low = real.exact_sum(x, x.constant(2))
    first, first_low = real.exact_product(x, above)
    second, second_low = real.exact_product(y, y)
    total, low = real.exact_sum(first, second)
    precise = logarithm.log1p(total + (low + first_low + second_low + x * above_low)) * 0.5
    far = log(z.plus_one())
    return _undefined(z.is_nan(), Complex(select(near_one, precise, far.real), far.imag))


def logistic(z: Complex) -> Complex:
    """1 / (1 + exp(-z)), written so that large arguments do not meet inf / inf."""
    negative = z.real < -1
    exponent = choose(negative, z, -z)
    falling = exp(exponent)
    # 1 + e^a cos b: near a pole, where cos b is -1 and a is 0, of terms each exact in size.
    growth = exponential.expm1(exponent.real)
    cosine, half = cos_f64_inline(exponent.imag), cos_f64_inline(exponent.imag * 0.5)
    near = (cosine < 0) & (abs(exponent.real) <= 1)
    across = (growth + 1) * sin_f64_inline(exponent.imag)
    below = falling.plus_one()
    below = Complex(
        select(near, real.fma(half * 2, half, cosine * growth), below.real),
        select(near, across, below.imag),
    )
    above = choose(negative, falling, _one(z))
    is_plain = exponent.imag.equals(0) | below.is_nan()
    return choose(is_plain, _divided(above, below), _divided(above, below, real.fma))


def sin(z: Complex) -> Complex:
    """The sine by its parts, so that 0 times infinity is NaN."""
    return Complex(
        sin_f64_inline(z.real) * exponential.cosh(z.imag),
        cos_f64_inline(z.real) * exponential.sinh(z.imag),
    )


def cos(z: Complex) -> Complex:
    """The cosine by its parts, so that 0 times infinity is NaN."""
    return Complex(
        cos_f64_inline(z.real) * exponential.cosh(z.imag),
        -(sin_f64_inline(z.real) * exponential.sinh(z.imag)),
    )


def sinh(z: Complex) -> Complex:
    """The hyperbolic sine; infinite beside an angle that is not finite."""
    x, cosine, sine = exponential.sinh(z.real), cos_f64_inline(z.imag), sin_f64_inline(z.imag)
    along = select(is_infinite(z.real) & ~is_finite(z.imag), x, _grown(z.real, x, cosine))
    along = select(x.equals(0), x, along)
    across = _grown(abs(z.real), exponential.cosh(z.real), sine)
    return Complex(along, select(z.imag.equals(0), z.imag, across))


def _grown(x: Value, growth: Value, factor: Value) -> Value:
    """sinh or cosh of x, given as `growth`, times a factor, which may make it finite."""
    half = exponential.exp(abs(x) * 0.5)
    large = is_infinite(growth) & ~is_infinite(x)
    return select(large, with_sign(half, x) * factor * 0.5 * half, growth * factor)


def cosh(z: Complex) -> Complex:
    """The hyperbolic cosine; infinite beside an angle that is not finite."""
    x, cosine, sine = exponential.cosh(z.real), cos_f64_inline(z.imag), sin_f64_inline(z.imag)
    along = select(is_infinite(z.real) & ~is_finite(z.imag), x, _grown(abs(z.real), x, cosine))
    across = _grown(z.real, exponential.sinh(z.real), sine)
    real_or_turned = z.imag.equals(0) | z.real.equals(0)
    return Complex(along, select(real_or_turned, across.constant(0), across))


def tanh(z: Complex) -> Complex:
    """The hyperbolic tangent, NaN where the imaginary part is not finite and the real one small."""
    tangent = tan_f64_inline(z.imag)
    square = tangent * tangent + 1
    far = abs(z.real) > 20
    sine = exponential.sinh(select(far, z.real.constant(0), z.real))
    cosine = real.sqrt(real.fma(sine, sine, 1))
    below = real.fma(square, sine * sine, 1)
    near = Complex(square * cosine * sine / below, tangent / below)
    # sinh 2x and sin 2y over cosh 2x + cos 2y, which has fewer roundings, where that is no
    # difference.
    doubled = select(far, z.real.constant(0), z.real) * 2
    turned = cos_f64_inline(z.imag * 2)
    total = exponential.cosh(doubled) + turned
    plain = Complex(exponential.sinh(doubled) / total, sin_f64_inline(z.imag * 2) / total)
    # Twice the largest angles is infinite.
    near = choose((turned > -0.25) | ((abs(z.real) > 1) & is_finite(turned)), plain, near)
    decay = exponential.exp(abs(z.real) * -2)
    end = Complex(with_sign(decay.constant(1), z.real), tangent / square * decay * 4)
    result = choose(far, end, near)
    result = Complex(result.real, select(z.imag.equals(0), z.imag, result.imag))
    limit = Complex(with_sign(decay.constant(1), z.real), z.real.constant(0))
    undefined = z.real.differs(z.real)
    result = Complex(select(undefined, z.real, result.real), result.imag)
    return choose(is_infinite(z.real), limit, _undefined(~is_finite(z.imag), result))


def tan(z: Complex) -> Complex:
    """The tangent, NaN where the real part is not finite and the imaginary one decides nothing."""
    return tanh(z.times_i()).over_i()


def _reduced(z: Complex) -> tuple[Complex, Callable[[Value], Value]]:
    """z, scaled where the products of Kahan's formulas would overflow, and what undoes that.

    Angles do not change; the inverse hyperbolic sine of a product is a logarithm there.
    """
    huge = (abs(z.real) > _HUGE) | (abs(z.imag) > _HUGE)
    scale = select(huge, z.real.constant(2.0**-100), z.real.constant(1))

    def back(y: Value) -> Value:
        # A sum with -0 keeps the signs of zeros.
        return y + select(huge, with_sign(y.constant(100 * math.log(2)), y), y.constant(-0.0))

    return Complex(z.real * scale, z.imag * scale), back


def acos(z: Complex) -> Complex:
    """The arc cosine, by Kahan's formulas."""
    z, back = _reduced(z)
    below, above = _unadjusted_sqrt(z.one_minus()), _unadjusted_sqrt(z.plus_one())
    x = inverse_trigonometric.atan2(below.real, above.real) * 2
    x = select(z.real.equals(0) & z.is_nan(), x.constant(math.pi / 2), x)
    y = back(logarithm.asinh((above.conjugate() * below).imag))
    end = inverse_trigonometric.atan2(abs(z.imag), z.real)
    far = Complex(end, with_sign(y.constant(math.inf), -z.imag))
    return choose(z.is_infinite(), far, Complex(x, y))


def asin(z: Complex) -> Complex:
    """The arc sine, by Kahan's formulas."""
    z, back = _reduced(z)
    below, above = _unadjusted_sqrt(z.one_minus()), _unadjusted_sqrt(z.plus_one())
    x = inverse_trigonometric.atan2(z.real, (below * above).real)
    x = select(z.real.equals(0), z.real, x)
    y = back(logarithm.asinh((below.conjugate() * above).imag))
    end = inverse_trigonometric.atan2(z.real, abs(z.imag))
    far = Complex(end, with_sign(y.constant(math.inf), z.imag))
    small = (abs(z.real) < _SMALL) & (abs(z.imag) < _SMALL)
    result = choose(small, _asin_of_small(z), Complex(x, y))
    return choose(z.is_infinite(), far, result)


def _asin_of_small(z: Complex) -> Complex:
    """The series of the arc sine, whose first term is exact."""
    square = z * z
    factor = Complex(z.real.constant(_ASIN_SERIES[-1]), z.real.constant(0))
    for coefficient in _ASIN_SERIES[-2::-1]:
        factor = factor * square
        factor = Complex(factor.real + coefficient, factor.imag)
    result = z + z * (square * factor)
    # Zeros keep their signs.
    return Complex(
        select(z.real.equals(0), z.real, result.real),
        select(z.imag.equals(0), z.imag, result.imag),
    )


def acosh(z: Complex) -> Complex:
    """The inverse hyperbolic cosine, by Kahan's formulas."""
    z, back = _reduced(z)
    below, above = _unadjusted_sqrt(-z.one_minus()), _unadjusted_sqrt(z.plus_one())
    x = back(logarithm.asinh((below.conjugate() * above).real))
    y = inverse_trigonometric.atan2(below.imag, above.real) * 2
    y = select(z.real.equals(0) & z.is_nan(), y.constant(math.pi / 2), y)
    end = inverse_trigonometric.atan2(z.imag, z.real)
    far = Complex(x.constant(math.inf), end)
    return choose(z.is_infinite(), far, Complex(x, y))


def asinh(z: Complex) -> Complex:
    """The inverse hyperbolic sine: the arc sine turned by a quarter."""
    return asin(z.times_i()).over_i()


def atanh(z: Complex) -> Complex:
    """The inverse hyperbolic tangent; infinite at 1 and -1, a quarter turn at infinity."""
    x, y = abs(z.real), z.imag
    beside = 1 - x
    gap = real.fma(beside, beside, y * y)
    size = logarithm.log1p(x * 4 / gap) * 0.25
    # So near to the poles the square of y would vanish.
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
    """The arc tangent: the inverse hyperbolic one turned by a quarter."""
    return atanh(z.times_i()).over_i()


def atan2(y: Complex, x: Complex) -> Complex:
    """-i log((x + i y) / sqrt(x x + y y)), the real function continued."""
    sizes = ((abs(z.real), abs(z.imag)) for z in (x, y))
    largest, of_y = (select(beside > along, beside, along) for along, beside in sizes)
    size = select(of_y > largest, of_y, largest)
    large, small = size > 2.0**300, size < 2.0**-300
    one = size.constant(1)
    scale = select(large, one * 2.0**-700, select(small, one * 2.0**700, one))
    a, b = (Complex(z.real * scale, z.imag * scale) for z in (y, x))
    formula = log(_divided(b + a.times_i(), _unadjusted_sqrt(b * b + a * a))).over_i()
    # The formula has the special values; its logarithm rounds what is near 1.
    is_quotient = of_y < largest * 2.0**-40
    near = choose(is_quotient, _divided(y, x), complex_arctangent.arctangent(a, b))
    precise = complex_arctangent.with_half_turn(near, a, b, formula)
    return choose(is_finite(formula.real) & is_finite(formula.imag), precise, formula)


def _unadjusted_sqrt(z: Complex) -> Complex:
    """The root whose imaginary part has the sign of z's, that of a zero too."""
    root = sqrt(z)
    return Complex(root.real, with_sign(root.imag, z.imag))


def pow(base: Complex, exponent: Complex) -> Complex:
    """exp(exponent log(base)), the real power of 0 and infinity, and 1 of a base of 1."""
    result = exp(exponent * log(base))
    ordinary = is_finite(exponent.real) & is_finite(exponent.imag) & ~base.is_zero()
    ordinary = ordinary & is_finite(base.real) & is_finite(base.imag)
    result = choose(ordinary & is_finite(result.real), complex_power.power(base, exponent), result)
    result = _undefined(base.is_zero(), result)
    plain = base.imag.equals(0) & (base.real >= 0) & exponent.imag.equals(0)
    of_zero = base.is_zero() & (exponent.real >= 0)
    plain = plain & (of_zero | (base.is_infinite() & ~exponent.is_nan()))
    size = power.pow(abs(base.real), exponent.real)
    result = choose(plain, Complex(size, size.constant(0)), result)
    return choose(base.equals(_one(base)) | exponent.is_zero(), _one(base), result)


_UNARY = {
    body.__name__: body
    for body in (
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atanh,
        cos,
        cosh,
        exp,
        expm1,
        log,
        log1p,
        logistic,
        rsqrt,
        sign,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
    )
}
_BINARY = {"atan2": atan2, "div": divide, "pow": pow}

COMPLEX: Mapping[str, Any] = {
    **{f"{name}_c128": function(["c128"], "c128", body) for name, body in _UNARY.items()},
    **{f"{name}_c128": function(["c128"] * 2, "c128", body) for name, body in _BINARY.items()},
}
"""Functions that both complex types are given in double precision."""
