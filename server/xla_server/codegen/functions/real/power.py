"""pow, cbrt and rsqrt."""

import math

from xla_server.codegen.functions.real.coefficients import ATANH_OF_POW, EXP2_OF_POW, LOG2_OF_POW
from xla_server.codegen.functions.real.exponential import exp_of_sum
from xla_server.codegen.functions.real.irrational import LN2_PARTS, THIRD_PARTS
from xla_server.codegen.functions.real.logarithm import split
from xla_server.codegen.functions.values import (
    Value,
    bits,
    clamped,
    divided,
    exact_product,
    exact_sum,
    exact_sum_ordered,
    family,
    fma,
    high_word,
    nearest,
    of_bits,
    polynomial,
    power_of_two,
    select,
    sqrt,
    to,
    truncated,
    with_sign,
)


def pow(x: Value, y: Value) -> Value:
    """X to the power y, IEEE 754's special cases."""
    size = abs(x)
    magnitude = _power_f32(size, y) if x.type == "f32" else _power_f64(size, y)
    return _with_special_cases(x, y, magnitude)


def _power_f32(size: Value, y: Value) -> Value:
    """2^(y log2(size)) in f64, exact enough for f32 to be rounded once."""
    number, scale = _normal_by_bits(size)
    k, fraction = split(number)
    m = to("f64", fraction)
    s = (m - 1) / (m + 1)
    count = to("f64", to("f32", k) + scale)
    logarithm = fma(s, polynomial(s * s, LOG2_OF_POW["f64"]), count)
    exponent = clamped(logarithm * to("f64", y), -200.0, 200.0)
    n, whole = nearest(exponent, 1.0)
    result = polynomial(exponent - n, EXP2_OF_POW["f64"]) * power_of_two(whole, "f64")
    return to("f32", result)


def _power_f64(size: Value, y: Value) -> Value:
    """exp(y log(size)), the logarithm and the product as sums of two floats."""
    # Beyond, every logarithm but 0 gives 0 or infinity already.
    y = clamped(y, -(2.0**66), 2.0**66)
    high, low = logarithm_of(size)
    product, error = exact_product(y, high)
    error = fma(y, low, error)
    error = select(abs(product) < 740, error, 0.0)
    return exp_of_sum(clamped(product, -746.0, 710.0), error)


def logarithm_of(size: Value) -> tuple[Value, Value]:
    """The natural logarithm of a number of f64 above zero, as a sum of two floats."""
    number, scale = _normal_by_bits(size)
    k, m = split(number)
    count = to("f64", k) + scale
    # s = (m - 1) / (m + 1) and z = s^2 as sums of two floats; log(m) = 2 s (1 + z/3 + ...).
    f = m - 1
    bottom, bottom_low = exact_sum(m, m.constant(1))
    reciprocal = 1 / bottom
    s = f * reciprocal
    s_low = fma(-s, bottom_low, fma(-s, bottom, f)) * reciprocal
    z, z_low = exact_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    third, third_low = THIRD_PARTS
    part = z * third
    part_low = fma(z, third, -part) + fma(z, third_low, z_low * third)
    total, low = exact_sum_ordered(part, z * z * polynomial(z, ATANH_OF_POW["f64"]))
    low = low + part_low
    rest, rest_low = exact_product(s, total)
    rest_low = rest_low + fma(s, low, s_low * total)
    high, low = exact_sum_ordered(s, rest)
    low = low + (rest_low + s_low)
    first, second = LN2_PARTS["f64"]
    high, error = exact_sum_ordered(count * first, high + high)
    return exact_sum_ordered(high, error + fma(count, second, low + low))


def _normal_by_bits(size: Value) -> tuple[Value, Value]:
    """(number, scale): size >= 0 is a normal number times 2^scale, in any mode."""
    form = size.format
    small = _is_small(size)
    lowest = 1 - form.bias - form.fraction
    return select(small, _counted(size), size), select(small, size.constant(lowest), 0.0)


def _is_small(size: Value) -> Value:
    """Return whether size >= 0 is zero or subnormal."""
    return bits(size) < (1 << size.format.fraction)


def _counted(size: Value) -> Value:
    """Return how many smallest numbers size is, zero or subnormal: its fraction, behind 2^p."""
    form = size.format
    power = (form.bias + form.fraction) << form.fraction
    return of_bits(bits(size) | power) - 2.0**form.fraction


def _is_zero(size: Value) -> Value:
    """Return whether size >= 0 is zero, which subnormal numbers are not in any mode.

    LLVM would make of a test of the bits one of the number.
    """
    return _is_small(size) & _counted(size).equals(0)


def _with_special_cases(x: Value, y: Value, magnitude: Value) -> Value:
    size, zero, one = abs(x), x.constant(0), x.constant(1)
    endless = size.equals(math.inf)
    result = select(size.equals(1), one, magnitude)
    nothing, plain = _is_zero(size), _is_zero(abs(y))
    edge = select(nothing ^ (bits(y) < 0), zero, math.inf)
    result = select(nothing | endless, edge, result)
    half = y * 0.5
    whole = truncated(y).equals(y) & ((abs(y) >= 1) | plain)
    odd = whole & truncated(half).differs(half)
    negative = (bits(x) < 0) & ~nothing
    result = select(negative & ~(whole | endless), x.constant(math.nan), result)
    result = select(odd & (bits(x) < 0), -result, result)
    result = select(x.differs(x) | y.differs(y), x + y, result)
    return select(plain | x.equals(1), one, result)


_THIRD = {"f32": 0x54A2FA8C, "f64": 0x553EF0FF}
"""First estimate of 1 / cbrt, minus a third of the bits: 4/3 of the exponent's bias and a
little."""


def cbrt(x: Value) -> Value:
    """The cube root: 1 / cbrt by a quartic iteration, then Newton's step with an exact residual."""
    size = abs(x)
    # The residual of smaller numbers would be subnormal, which the processor takes for zero.
    up = 54 if x.type == "f32" else 108
    small = size < (2.0**-80 if x.type == "f32" else 2.0**-900)
    number = select(small, size * 2.0**up, size)
    start = to(x.format.bits, _THIRD[x.type] - divided(high_word(bits(number)), 3))
    y = of_bits(start << (x.format.fraction - 20 if x.type == "f64" else 0))
    for _ in range(1 if x.type == "f32" else 2):
        error = fma(number * y, -(y * y), 1.0)
        y = fma(y * error, fma(error, fma(error, 14 / 81, 2 / 9), 1 / 3), y)
    root = number * y * y
    square, low = exact_product(root, root)
    residual = fma(square, root, -number) + low * root
    root = fma(residual, y * y * (-1 / 3), root)
    root = select(small, root * 2.0 ** (-up // 3), root)
    return select((size > 0) & (size < math.inf), with_sign(root, x), x)


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x), both rounded, as XLA has it."""
    return 1 / sqrt(x)


POWER = {**family(pow, operands=2), **family(cbrt, rsqrt)}
"""Every function of this module by its name in kernels."""
