"""Exponential functions, logarithms, powers and roots."""

import math
from collections.abc import Mapping
from decimal import Decimal, localcontext

import numpy as np
from scipy import special

from tests.elementwise_operations.operation import (
    FLOATING,
    NUMERIC,
    WAVES,
    Array,
    Operation,
    Ulps,
    both,
)
from tests.ulps.exact_sums import from_parts, two_product, two_sum
from tests.ulps.fits.fitting import Fit, series
from tests.ulps.fits.minimax import DIGITS
from xla_contract.types.opcode import Opcode

_LOG_HIGH = (math.sqrt(2) - 1) / (math.sqrt(2) + 1)


def _erf(x: Array) -> Array:
    """scipy's for f64; for more precision the series of positive terms."""
    if x.dtype != np.longdouble:
        return special.erf(x)
    square = np.minimum(x * x, np.longdouble(45))
    term = total = np.ones_like(x)
    for k in range(1, 220):
        term = term * (2 * square) / (2 * k + 1)
        total = total + term
    scale = 2 / np.sqrt(4 * np.arctan(np.longdouble(1)))
    return np.where(np.abs(x) > 6.5, np.sign(x), scale * x * np.exp(-square) * total)


def _logistic(x: Array) -> Array:
    """The formula of the definition, which is zero where e^-x is infinite in the narrower type."""
    largest = np.finfo(np.float32 if x.dtype == np.float64 else np.float64).max
    falling = np.exp(-x)
    return np.where(falling > x.dtype.type(largest), 0, 1) / (1 + falling)


def _complex_expm1(z: Array) -> Array:
    """e^z - 1, the real part as a sum of terms that do not cancel."""
    return from_parts(
        np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2,
        np.exp(z.real) * np.sin(z.imag),
    )


def _complex_logistic(z: Array) -> Array:
    """1 / (1 + e^-z), the sum of terms that do not cancel near a pole."""
    a, b = -z.real, -z.imag
    near = 2 * np.cos(b / 2) ** 2 + np.cos(b) * np.expm1(a)
    real = np.where(np.abs(a) < 1, near, 1 + np.exp(a) * np.cos(b))
    return 1 / from_parts(real, np.exp(a) * np.sin(b))


def _log_parts(z: Array) -> tuple[Array, Array, Array]:
    """(real, rest, angle): the logarithm, its real part as a sum of two numbers."""
    x, y = np.abs(z.real), np.abs(z.imag)
    large, small = np.maximum(x, y), np.minimum(x, y)
    scale = np.exp2(np.floor(np.log2(np.where(large > 0, large, 1))))
    near = (large > 0.5) & (large < 2)
    scale = np.where(near, 1, scale)
    a, b = large / scale, small / scale
    # |z|^2 - 1 = (a - 1)(a + 1) + b^2, each product as a sum of two.
    first, first_low = two_product(a - 1, a + 1)
    second, second_low = two_product(b, b)
    total, low = two_sum(first, second)
    square = total + (low + first_low + second_low)
    real = np.log1p(square) / 2
    count = np.log2(scale)
    ln2 = np.log(np.longdouble(2))
    high, rest = two_sum(count * ln2, real)
    return high, rest, np.arctan2(z.imag, z.real)


def _complex_log(z: Array) -> Array:
    high, rest, angle = _log_parts(z)
    return from_parts(high + rest, angle)


def _complex_log_plus_one(z: Array) -> Array:
    x, y = z.real, z.imag
    first, first_low = two_product(x, x + 2)
    second, second_low = two_product(y, y)
    total, low = two_sum(first, second)
    # x + 2 is rounded; of a small x by what its square has.
    lost = (x + 2) - 2
    low = low + first_low + second_low + x * (x - lost)
    near = np.abs(total) < 0.5
    size = np.where(near, np.log1p(np.where(near, total + low, 0)) / 2, _complex_log(1 + z).real)
    return from_parts(size, np.arctan2(y, 1 + x))


def _complex_power(base: Array, exponent: Array) -> Array:
    high, rest, angle = _log_parts(base)
    c, d = exponent.real, exponent.imag
    parts = []
    for (p, q), (r, s) in (((c, high), (-d, angle)), ((d, high), (c, angle))):
        first, first_low = two_product(p, q)
        second, second_low = two_product(r, s)
        total, low = two_sum(first, second)
        parts.append((total, low + first_low + second_low + p * (rest if q is high else 0)))
    (size, size_low), (turn, turn_low) = parts
    size_factor = np.exp(size) * (1 + size_low)
    cosine, sine = np.cos(turn), np.sin(turn)
    return from_parts(
        size_factor * (cosine - sine * turn_low), size_factor * (sine + cosine * turn_low)
    )


def _exp_tail(x: Decimal) -> Decimal:
    """(exp(x) - 1 - x) / x^2."""
    return series(Decimal(1) / 2, lambda k: x / (k + 2))


def _log_tail(z: Decimal) -> Decimal:
    """(2 atanh(s) - 2 s) / s^3, z = s^2."""
    return sum(((2 * z**k if k else Decimal(2)) / (2 * k + 3) for k in range(90)), Decimal(0))


def _atanh_tail(z: Decimal) -> Decimal:
    """(atanh(s) / s - 1 - z / 3) / z^2, z = s^2."""
    return sum(((z**k if k else Decimal(1)) / (2 * k + 5) for k in range(90)), Decimal(0))


def _pi() -> Decimal:
    def inverse_tangent(n: int) -> Decimal:
        return sum(
            (Decimal((-1) ** k) / ((2 * k + 1) * Decimal(n) ** (2 * k + 1)) for k in range(90)),
            Decimal(0),
        )

    return 16 * inverse_tangent(5) - 4 * inverse_tangent(239)


def _erf_ratio(z: Decimal) -> Decimal:
    """erf(r) / r, z = r^2."""
    scale = 2 / _pi().sqrt()
    return scale * (-z).exp() * series(Decimal(1), lambda k: 2 * z / (2 * k + 1))


def _erfc(a: Decimal) -> Decimal:
    with localcontext(prec=2 * DIGITS):
        return 1 - a * _erf_ratio(a * a)


OPERATIONS: Mapping[Opcode, Operation] = {
    Opcode.CBRT: Operation("Cbrt", FLOATING, Ulps(1, 1, 1, 4, 4), real=np.cbrt),
    Opcode.ERF: Operation("Erf", FLOATING, Ulps(1, 1, 1, 8, 4), real=_erf),
    Opcode.EXPONENTIAL: both("Exp", WAVES, Ulps(1, 1, 1, 4, 2, 4, 4), np.exp),
    Opcode.EXPONENTIAL_MINUS_ONE: Operation(
        "Expm1", WAVES, Ulps(1, 2, 1, 8, 8, 8, 8), real=np.expm1, complex=_complex_expm1
    ),
    Opcode.LOG: Operation(
        "Log", WAVES, Ulps(1, 1, 1, 4, 2, 4, 64), real=np.log, complex=_complex_log
    ),
    Opcode.LOG_PLUS_ONE: Operation(
        "Log1p", WAVES, Ulps(1, 1, 1, 4, 256, 8, 64), real=np.log1p, complex=_complex_log_plus_one
    ),
    Opcode.LOGISTIC: Operation(
        "Logistic", WAVES, Ulps(1, 2, 1, 8, 4, 512, 512), real=_logistic, complex=_complex_logistic
    ),
    Opcode.POWER: Operation(
        "Pow",
        NUMERIC,
        Ulps(1, 1, 1, 4, 4, 512, 512),
        real=np.power,
        complex=_complex_power,
        bit=lambda x, y: x if y else 1,
    ),
    Opcode.RSQRT: Operation(
        "Rsqrt",
        WAVES,
        Ulps(1, 1, 1, 4, 4, 8, 8),
        real=lambda x: 1 / np.sqrt(x),
        complex=lambda z: 1 / np.sqrt(z),
    ),
    # XLA rounds small floats to F16 first.
    Opcode.SQRT: both("Sqrt", WAVES, Ulps(small=1, c64=4, c128=4), np.sqrt),
}
"""The rows by opcode."""

FITS = (
    Fit(
        "EXP",
        "(exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2; error relative to expm1(r).",
        _exp_tail,
        lambda x: abs(x / (1 + x * _exp_tail(x))),
        -0.3467,
        0.3467,
        (5, 11),
    ),
    Fit(
        "LOG",
        "(2 atanh(s) - 2 s) / s^3 in z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1); relative.",
        _log_tail,
        lambda z: z,
        0.0,
        1.001 * _LOG_HIGH**2,
        (3, 7),
    ),
    Fit(
        "ERF_RATIO",
        "4 erf(r) / r - 1 in z = r^2, |r| <= 3.88, dividend and divisor; error relative to erf.",
        lambda z: 4 * _erf_ratio(z) - 1,
        lambda z: 1 / (4 * _erf_ratio(z)),
        0.0,
        3.88**2,
        (6, 0),
        divisor=6,
        scale=1.564,
    ),
    Fit(
        "ERF_NEAR",
        "erf(r) / r - 1 in z = r^2, |r| <= 1; error relative to erf.",
        lambda z: _erf_ratio(z) - 1,
        lambda z: 1 / _erf_ratio(z),
        0.0,
        1.0,
        (0, 12),
    ),
    Fit(
        "ERF_FAR",
        "-ln(erfc(t + 1)), 0 <= t <= 4.95; error relative to erf.",
        lambda t: -_erfc(t + 1).ln(),
        lambda t: _erfc(t + 1),
        0.0,
        4.95,
        (0, 18),
    ),
    Fit(
        "ATANH_OF_POW",
        "(atanh(s) / s - 1 - z / 3) / z^2 in z = s^2 for pow; error relative to 1.",
        _atanh_tail,
        lambda z: z * z,
        0.0,
        1.001 * _LOG_HIGH**2,
        (3, 8),
    ),
)
"""The polynomials of their kernel functions."""
