"""log, log1p and powers of complex numbers."""

import math

from xla_server.codegen.functions import values as real
from xla_server.codegen.functions.complex import complex_power
from xla_server.codegen.functions.complex.complex_values import (
    HUGE,
    Complex,
    choose,
    complex_family,
    magnitude,
    one,
    undefined,
)
from xla_server.codegen.functions.real import inverse_trigonometric, logarithm
from xla_server.codegen.functions.values import Value, select


def log(z: Complex) -> Complex:
    """Return the natural logarithm; NaN if either part is NaN, even if the other is infinite."""
    large = (abs(z.real) > HUGE) | (abs(z.imag) > HUGE)
    scale = select(large, z.real.constant(2.0**-4), z.real.constant(1))
    scaled = Complex(z.real * scale, z.imag * scale)
    size = logarithm.log(magnitude(scaled))
    size = size + select(large, size.constant(4 * math.log(2)), size.constant(0))
    x, y = abs(z.real), abs(z.imag)
    x, y = select(y > x, y, x), select(y > x, x, y)
    # Near a magnitude of 1 the logarithm may be smaller than the rounding error of the magnitude.
    near = (x >= 0.5) & (x <= 2)
    size = select(near, _log_near_one(select(near, x, 1.0), select(near, y, 0.0)), size)
    return undefined(z.is_nan(), Complex(size, inverse_trigonometric.atan2(z.imag, z.real)))


def _log_near_one(x: Value, y: Value) -> Value:
    """Return log sqrt(x^2 + y^2) by (x - 1)(x + 1) + y^2; 2 >= x >= y >= 0, x >= 1/2."""
    above, above_low = real.exact_sum(x, x.constant(1))
    below = x - 1
    first, first_low = real.exact_product(below, above)
    second, second_low = real.exact_product(y, y)
    total, low = real.exact_sum(first, second)
    low = low + (first_low + second_low + below * above_low)
    return logarithm.log1p(total + low) * 0.5


def log1p(z: Complex) -> Complex:
    """Return log(1 + z), accurate near zero too."""
    size = magnitude(z.plus_one())
    near_one = abs(size - 1) < 0.5
    x, y = (select(near_one, part, part.constant(0)) for part in (z.real, z.imag))
    above, above_low = real.exact_sum(x, x.constant(2))
    first, first_low = real.exact_product(x, above)
    second, second_low = real.exact_product(y, y)
    total, low = real.exact_sum(first, second)
    precise = logarithm.log1p(total + (low + first_low + second_low + x * above_low)) * 0.5
    far = log(z.plus_one())
    return undefined(z.is_nan(), Complex(select(near_one, precise, far.real), far.imag))


def pow(base: Complex, exponent: Complex) -> Complex:
    """Return exp(exponent log(base)); real powers of 0 and infinity, and 1 for a base of 1."""
    ordinary = exponent.is_finite() & base.is_finite() & ~base.is_zero()
    result = undefined(~ordinary, complex_power.power(base, exponent))
    plain = base.imag.equals(0) & (base.real >= 0) & exponent.imag.equals(0)
    of_zero = base.is_zero() & (exponent.real >= 0)
    plain = plain & (of_zero | (base.is_infinite() & ~exponent.is_nan()))
    # The sum is 0 for both zeros, and for subnormal numbers if the processor's mode flushes them.
    size = select(exponent.real > 0, base.real + abs(base.real), 0.0)
    result = choose(plain, Complex(size, size.constant(0)), result)
    return choose(base.equals(one(base)) | exponent.is_zero(), one(base), result)


FORMULAS = {**complex_family(log, log1p), **complex_family(pow, operands=2)}
"""Every function of this module by its name in kernels."""
