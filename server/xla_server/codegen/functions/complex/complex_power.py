"""Powers of complex numbers: the logarithm and its product as sums of two floats of f64.

The power multiplies the logarithm's error by the exponent, so the logarithm has sixty bits.
"""

import functools
from fractions import Fraction

import numpy as np

from xla_server.codegen.functions import values
from xla_server.codegen.functions.complex.complex_values import Complex, sines
from xla_server.codegen.functions.real.exponential import exp_of_sum
from xla_server.codegen.functions.real.irrational import HALF_PI_PARTS, LN2_PARTS, PI
from xla_server.codegen.functions.real.power import logarithm_of

Pair = tuple[values.Value, values.Value]
"""A sum of two floats: the second is at most half an ULP of the first."""

_STEPS = 64
"""Angles of the table per radian."""


def _taylor(angle: Fraction, first: int) -> Fraction:
    """The sine (`first` 1) or cosine (0) of a small angle, by its series."""
    term, total, number = angle if first else Fraction(1), Fraction(0), first
    for _ in range(20):
        total += term
        term = -term * angle * angle / ((number + 1) * (number + 2))
        number += 2
    return total


@functools.cache
def _table() -> values.Table:
    """Return the table of cosine and sine of each angle, as sums of two floats."""
    rows = []
    for number in range(_STEPS):
        for first in (0, 1):
            value = _taylor(Fraction(number, _STEPS), first)
            high = float(value)
            rows += [high, float(value - Fraction(high))]
    return values.Table("xla_cosine_and_sine_of_steps_f64", np.array(rows).tobytes())


def _product(x: Pair, y: Pair) -> Pair:
    high, low = values.exact_product(x[0], y[0])
    return values.exact_sum_ordered(high, low + values.fma(x[0], y[1], x[1] * y[0]))


def _sum(x: Pair, y: Pair) -> Pair:
    high, low = values.exact_sum(x[0], y[0])
    return values.exact_sum_ordered(high, low + (x[1] + y[1]))


def _scaled(z: Complex) -> tuple[values.Value, values.Value, values.Value]:
    """Return (longer, shorter, count): the parts' sizes over 2^count, the longer near 1."""
    x, y = abs(z.real), abs(z.imag)
    longer, shorter = values.select(y > x, y, x), values.select(y > x, x, y)
    exponent = values.to("i32", values.bits(longer) >> 52) - 1023
    half = exponent >> 1
    for part in (half, exponent - half):
        scale = values.of_bits(values.to("i64", part * -1 + 1023) << 52)
        longer, shorter = longer * scale, shorter * scale
    return longer, shorter, values.to("f64", exponent)


def _logarithm(z: Complex) -> tuple[Pair, Pair]:
    """Return both parts of the logarithm of a number that is finite and not zero."""
    longer, shorter, count = _scaled(z)
    square = _sum(values.exact_product(longer, longer), values.exact_product(shorter, shorter))
    # Near 1 in size as it is: of a scaled number the exponent would cancel.
    high, low = logarithm_of(square[0])
    low = low + square[1] / square[0]
    high, low = values.exact_sum_ordered(high * 0.5, low * 0.5)
    first, second = LN2_PARTS["f64"]
    size = _sum((high, low), (count * first, count * second))
    return size, _angle(z, longer, shorter)


def _angle(z: Complex, longer: values.Value, shorter: values.Value) -> Pair:
    """Return the angle: that of the nearest table entry, plus the arc tangent of the remainder."""
    _, number = values.nearest(shorter / longer - _arc_excess(shorter / longer), float(_STEPS))
    table, row = _table(), number << 2
    cosine = table.at(row), table.at(row + 1)
    sine = table.at(row + 2), table.at(row + 3)
    zero = longer.constant(0)
    along = _sum(_product((longer, zero), cosine), _product((shorter, zero), sine))
    turned = _product((longer, zero), sine)
    across = _sum(_product((shorter, zero), cosine), (-turned[0], -turned[1]))
    t = across[0] / along[0]
    rest = values.fma(-t, along[0], across[0]) + (across[1] - t * along[1])
    low = rest / along[0]
    z2 = t * t
    series = values.fma(z2, values.fma(z2, values.fma(z2, 1 / 9, -1 / 7), 1 / 5), -1 / 3)
    angle = _sum(
        (values.to("f64", number) * (1 / _STEPS), zero), (t, values.fma(t * z2, series, low))
    )
    first, second = HALF_PI_PARTS["f64"]
    third = float(PI / 2 - Fraction(first) - Fraction(second))
    steep = abs(z.imag) > abs(z.real)
    for count, is_turned in ((1, steep), (2, values.bits(z.real) < 0)):
        quarters = longer.constant(count * first), longer.constant(count * second)
        turned = _sum(quarters, (-angle[0], -angle[1] + count * third))
        angle = (
            values.select(is_turned, turned[0], angle[0]),
            values.select(is_turned, turned[1], angle[1]),
        )
    upward = values.bits(z.imag) < 0
    return values.select(upward, -angle[0], angle[0]), values.select(upward, -angle[1], angle[1])


def _arc_excess(t: values.Value) -> values.Value:
    """Approximate t - atan(t) for 0 <= t <= 1, with an error far below the table's step."""
    z = t * t
    return t * z * values.fma(z, values.fma(z, values.fma(z, 0.04, -0.118), 0.196), -0.3333) * -1.0


def power(base: Complex, exponent: Complex) -> Complex:
    """Return exp(exponent log(base)) for finite numbers, the base not zero."""
    size, angle = _logarithm(base)
    zero = base.real.constant(0)
    c, d = (exponent.real, zero), (exponent.imag, zero)
    second = _product(d, angle)
    grown = _sum(_product(c, size), (-second[0], -second[1]))
    turn = _sum(_product(d, size), _product(c, angle))
    # For larger exponents the power is 0 or infinity, and pairs would be NaN if a product
    # overflows.
    plain = exponent * Complex(size[0], angle[0])
    is_near = abs(grown[0]) < 746
    size = values.select(is_near, grown[0], plain.real), values.select(is_near, grown[1], 0.0)
    small = size[0] < 746
    turn = values.select(small, turn[0], plain.imag), values.select(small, turn[1], 0.0)
    # The magnitude is multiplied as two factors, as it may overflow although the result does not.
    is_split = abs(size[0]) > 700
    share = values.select(is_split, zero.constant(0.5), 1.0)
    part = exp_of_sum(values.clamped(size[0], -1490.0, 1419.5) * share, size[1] * share)
    again = values.select(is_split, part, part.constant(1))
    sine, cosine = sines(turn[0])
    # The second float of a large angle may be large, too, so its sine is not itself.
    across, along = sines(turn[1])
    x = values.fma(-sine, across, cosine * along)
    y = values.fma(cosine, across, sine * along)
    y = values.select(turn[0].equals(0), values.with_sign(y, turn[0]), y)
    return Complex(part * x * again, part * y * again)
