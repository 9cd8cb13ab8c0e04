"""pow and cbrt."""

import math

from xla_server.codegen.functions import values
from xla_server.codegen.functions.real.exponential import exp_of_sum
from xla_server.codegen.functions.real.irrational import LN2_PARTS, THIRD_PARTS
from xla_server.codegen.functions.real.logarithm import split
from xla_server.codegen.functions.values import Coefficients

ATANH_OF_POW: Coefficients = {
    "f32": (
        0.20000000298023224, 0.14280235767364502, 0.1156855970621109,
    ),
    "f64": (
        0.1999999999999999, 0.1428571428572261, 0.11111111108755257, 0.09090909436751081,
        0.07692278326636724, 0.06668162903187226, 0.058373240090242966, 0.059952175150006684,
    ),
}  # fmt: skip
"""(atanh(s) / s - 1 - z / 3) / z^2 in z = s^2 for pow; error relative to 1.

Error before rounding: f32 2^-35.3, f64 2^-73.5.
"""

_LARGE = {"f32": (104.0, 89.0), "f64": (746.0, 710.0)}
"""Sizes of negative and positive arguments of exp beyond which it is zero and infinite."""


def pow(x: values.Value, y: values.Value) -> values.Value:
    """Return x to the power y, with IEEE 754's special cases."""
    return _with_special_cases(x, y, _power(abs(x), y))


def _power(size: values.Value, y: values.Value) -> values.Value:
    """Return exp(y log(size)); the logarithm and the product are sums of two floats."""
    # For larger y the power of every size but 1 is 0 or infinity.
    y = values.clamped(y, -(2.0**66), 2.0**66)
    high, low = logarithm_of(size)
    product, error = values.exact_product(y, high)
    error = values.fma(y, low, error)
    lowest, highest = _LARGE[size.type]
    error = values.select(abs(product) < lowest, error, 0.0)
    return exp_of_sum(values.clamped(product, -lowest, highest), error)


def logarithm_of(size: values.Value) -> tuple[values.Value, values.Value]:
    """Return the natural logarithm of a positive number, as a sum of two floats."""
    number, scale = _normal_by_bits(size)
    k, m = split(number)
    count = values.to(size.type, k) + scale
    # s = (m - 1) / (m + 1) and z = s^2 as sums of two floats; log(m) = 2 s (1 + z/3 + ...).
    f = m - 1
    bottom, bottom_low = values.exact_sum(m, m.constant(1))
    reciprocal = 1 / bottom
    s = f * reciprocal
    s_low = values.fma(-s, bottom_low, values.fma(-s, bottom, f)) * reciprocal
    z, z_low = values.exact_product(s, s)
    z_low = values.fma(s + s, s_low, z_low)
    third, third_low = THIRD_PARTS[size.type]
    part = z * third
    part_low = values.fma(z, third, -part) + values.fma(z, third_low, z_low * third)
    total, low = values.exact_sum_ordered(
        part, z * z * values.polynomial(z, ATANH_OF_POW[size.type])
    )
    low = low + part_low
    rest, rest_low = values.exact_product(s, total)
    rest_low = rest_low + values.fma(s, low, s_low * total)
    high, low = values.exact_sum_ordered(s, rest)
    low = low + (rest_low + s_low)
    first, second = LN2_PARTS[size.type]
    high, error = values.exact_sum_ordered(count * first, high + high)
    return values.exact_sum_ordered(high, error + values.fma(count, second, low + low))


def _normal_by_bits(size: values.Value) -> tuple[values.Value, values.Value]:
    """Return (number, scale): size >= 0 is a normal number times 2^scale, subnormals exact."""
    form = size.format
    small = _is_small(size)
    lowest = 1 - form.bias - form.fraction
    return values.select(small, _counted(size), size), values.select(
        small, size.constant(lowest), 0.0
    )


def _is_small(size: values.Value) -> values.Value:
    """Return whether size >= 0 is zero or subnormal."""
    return values.bits(size) < (1 << size.format.fraction)


def _counted(size: values.Value) -> values.Value:
    """Return size, zero or subnormal, in units of the smallest positive number."""
    form = size.format
    power = (form.bias + form.fraction) << form.fraction
    return values.of_bits(values.bits(size) | power) - 2.0**form.fraction


def _is_zero(size: values.Value) -> values.Value:
    """Return whether size >= 0 is zero, which subnormal numbers are not in any mode.

    LLVM would turn a test of the bits for zero into a comparison of the float.
    """
    return _is_small(size) & _counted(size).equals(0)


def _with_special_cases(x: values.Value, y: values.Value, magnitude: values.Value) -> values.Value:
    size, zero, one = abs(x), x.constant(0), x.constant(1)
    endless = size.equals(math.inf)
    result = values.select(size.equals(1), one, magnitude)
    nothing, plain = _is_zero(size), _is_zero(abs(y))
    edge = values.select(nothing ^ (values.bits(y) < 0), zero, math.inf)
    result = values.select(nothing | endless, edge, result)
    half = y * 0.5
    whole = values.truncated(y).equals(y) & ((abs(y) >= 1) | plain)
    odd = whole & values.truncated(half).differs(half)
    negative = (values.bits(x) < 0) & ~nothing
    result = values.select(negative & ~(whole | endless), x.constant(math.nan), result)
    result = values.select(odd & (values.bits(x) < 0), -result, result)
    result = values.select(x.differs(x) | y.differs(y), x + y, result)
    return values.select(plain | x.equals(1), one, result)


_THIRD = {"f32": 0x54A2FA8C, "f64": 0x553EF0FF}
"""Constant from which a third of x's bits is subtracted to estimate 1 / cbrt(x): about 4/3 of the
exponent's bias."""


def cbrt(x: values.Value) -> values.Value:
    """The cube root: 1 / cbrt by a quartic iteration, then Newton's step with an exact residual."""
    size = abs(x)
    # Smaller numbers are scaled: their residual would be subnormal, which is flushed to zero.
    up = 54 if x.type == "f32" else 108
    small = size < (2.0**-80 if x.type == "f32" else 2.0**-900)
    number = values.select(small, size * 2.0**up, size)
    start = values.to(
        x.format.bits, _THIRD[x.type] - values.divided(values.high_word(values.bits(number)), 3)
    )
    y = values.of_bits(start << (x.format.fraction - 20 if x.type == "f64" else 0))
    for _ in range(1 if x.type == "f32" else 2):
        error = values.fma(number * y, -(y * y), 1.0)
        y = values.fma(y * error, values.fma(error, values.fma(error, 14 / 81, 2 / 9), 1 / 3), y)
    root = number * y * y
    square, low = values.exact_product(root, root)
    residual = values.fma(square, root, -number) + low * root
    root = values.fma(residual, y * y * (-1 / 3), root)
    root = values.select(small, root * 2.0 ** (-up // 3), root)
    return values.select((size > 0) & (size < math.inf), values.with_sign(root, x), x)


FORMULAS = {**values.family(pow, operands=2), **values.family(cbrt)}
"""Every function of this module by its name in kernels."""
