"""log, log1p, asinh, acosh and atanh: all log of a sum of two floats.

x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f): log(m) = f - f^2 / 2 +
s (f^2 / 2 + s^2 LOG(s^2)), where only the last, small term is inexact.
"""

import math

from xla_server.codegen.functions.real.exponential import TINY
from xla_server.codegen.functions.real.irrational import LN2_PARTS
from xla_server.codegen.functions.values import (
    Coefficients,
    Value,
    at_most,
    bits,
    exact_product,
    exact_sum,
    exact_sum_ordered,
    family,
    fma,
    high_word,
    of_bits,
    polynomial,
    select,
    sqrt,
    to,
    with_sign,
)

LOG: Coefficients = {
    "f32": (
        0.6666666865348816, 0.3998839259147644, 0.2962324321269989,
    ),
    "f64": (
        0.6666666666666666, 0.39999999999779445, 0.285714286724911, 0.22222204962932796,
        0.181832621083673, 0.1532119194385732, 0.1472923889454958,
    ),
}  # fmt: skip
"""(2 atanh(s) - 2 s) / s^3 in z = s^2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1); relative.

Error before rounding: f32 2^-28.2, f64 2^-58.0.
"""

_ROOT_OF_HALF = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}
"""The bits of sqrt(1/2)."""

_SMALLEST = {"f32": 2.0**-126, "f64": 2.0**-1022}
"""The smallest normal number."""

_LARGE = {"f32": 2.0**15, "f64": 2.0**30}
"""Argument from which x^2 + 1 and x^2 - 1 round to x^2, in asinh and acosh."""


def split(x: Value) -> tuple[Value, Value]:
    """(k, m): a normal x > 0 is 2^k m, k an i32."""
    form = x.format
    whole = bits(x)
    offset = whole - _ROOT_OF_HALF[x.type]
    k = high_word(offset) >> (form.fraction % 32)
    return k, of_bits(whole - (offset & -(1 << form.fraction)))


def normal(x: Value) -> tuple[Value, Value]:
    """(number, scale): x >= 0 is a normal number times 2^scale; scale is a float."""
    up = x.format.fraction + 1
    small = x < _SMALLEST[x.type]
    return select(small, x * 2.0**up, x), select(small, x.constant(-up), 0.0)


def _log_of_sum(x: Value, low: Value | None, scale: Value | None) -> Value:
    """Return log((x + low) 2^scale); x is normal and positive, |low| about its last bit at most."""
    k, m = split(x)
    f = m - 1
    s = f / (f + 2)
    half_square = f * (f * 0.5)
    z = s * s
    rest = fma(s, fma(z, polynomial(z, LOG[x.type]), half_square), -half_square)
    if low is not None:
        # The factor is 2^-k, or 0 if `low` is negligible beside x.
        exponent = x.format.bias - k
        exponent = select(exponent > 0, exponent, 0)
        part = low * of_bits(to(x.format.bits, exponent) << x.format.fraction)
        rest = rest + fma(-part, f, part)
    count = to(x.type, k)
    if scale is not None:
        count = count + scale
    high_part, low_part = LN2_PARTS[x.type]
    high, error = exact_sum_ordered(count * high_part, f)
    return high + (error + fma(count, low_part, rest))


def log(x: Value) -> Value:
    """The natural logarithm."""
    number, scale = normal(x)
    result = _log_of_sum(number, None, scale)
    result = select(x < math.inf, result, x)
    return select(x > 0, result, select(x.equals(0), x.constant(-math.inf), math.nan))


def log1p(x: Value) -> Value:
    """log(1 + x)."""
    total, low = exact_sum(x.constant(1), x)
    result = _log_of_sum(total, low, None)
    result = select(x > -1, result, select(x.equals(-1), x.constant(-math.inf), math.nan))
    kept = (abs(x) >= TINY[x.type]) & x.differs(math.inf)
    # The result is x, computed so that the processor's mode applies to subnormal numbers.
    return select(kept, result, (x + x) * 0.5)


def asinh(x: Value) -> Value:
    """log(|x| + sqrt(x^2 + 1)) with the sign of x."""
    size = abs(x)
    large = size > _LARGE[x.type]
    near = at_most(size, _LARGE[x.type])
    square, error = exact_product(near, near)
    total, low = exact_sum(square, x.constant(1))
    result = _log_with_root(size, near, total, low + error, large)
    kept = (size >= TINY[x.type]) & (size < math.inf)
    return select(kept, with_sign(result, x), x)


def acosh(x: Value) -> Value:
    """log(x + sqrt(x^2 - 1)); NaN below 1."""
    large = x > _LARGE[x.type]
    near = at_most(x, _LARGE[x.type])
    square, error = exact_product(near, near)
    total, low = exact_sum(square, x.constant(-1))
    total, low = exact_sum_ordered(total, low + error)
    result = select(x < math.inf, _log_with_root(x, near, total, low, large), x)
    return select(x >= 1, result, math.nan)


def _log_with_root(x: Value, near: Value, square: Value, low: Value, large: Value) -> Value:
    """Return log(near + sqrt(square + low)), or log(2 x) if `large`."""
    root = sqrt(square)
    error = (fma(-root, root, square) + low) / select(root > 0, root + root, 1.0)
    total, rest = exact_sum(near, root)
    return _log_of_sum(
        select(large, x, total),
        select(large, x.constant(0), rest + error),
        select(large, x.constant(1), 0.0),
    )


def atanh(x: Value) -> Value:
    """log((1 + x) / (1 - x)) / 2."""
    size = abs(x)
    top, top_low = exact_sum(x.constant(1), size)
    bottom, bottom_low = exact_sum(x.constant(1), -size)
    quotient = top / bottom
    low = (fma(-quotient, bottom, top) + fma(-quotient, bottom_low, top_low)) / bottom
    result = _log_of_sum(quotient, low, None) * 0.5
    result = select(size < 1, result, select(size.equals(1), x.constant(math.inf), math.nan))
    return select(size >= TINY[x.type], with_sign(result, x), x)


FORMULAS = family(log, log1p, asinh, acosh, atanh)
"""Every function of this module by its name in kernels."""
