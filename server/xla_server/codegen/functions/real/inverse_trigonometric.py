"""asin, acos, atan and atan2."""

import math

from xla_server.codegen.functions import values
from xla_server.codegen.functions.real.exponential import TINY
from xla_server.codegen.functions.real.irrational import HALF_PI_PARTS, QUARTER_PI_PARTS
from xla_server.codegen.functions.values import Coefficients

ASIN: Coefficients = {
    "f32": (
        0.16666659712791443, 0.07500510662794113, 0.04451571777462959, 0.03181762248277664,
        0.014402560889720917, 0.037565264850854874,
    ),
    "f64": (
        0.16666666666665383, 0.07500000000343052, 0.04464285682347436, 0.030381959331629505,
        0.022371753514197346, 0.01735977123877227, 0.013884597236226238, 0.012173287015800076,
        0.006510821603612397, 0.01957398861822281, -0.01629419584838221, 0.03195904439649401,
    ),
}  # fmt: skip
"""(asin(r) - r) / r^3 in z = r^2, |r| <= 1 / 2; relative.

Error before rounding: f32 2^-31.7, f64 2^-55.9.
"""

ATAN: Coefficients = {
    "f32": (
        -0.3333333432674408, 0.19999349117279053, -0.14257486164569855, 0.10683930665254593,
        -0.06282509863376617,
    ),
    "f64": (
        -0.3333333333333333, 0.19999999999984172, -0.14285714282757292, 0.11111110894011425,
        -0.09090900571803173, 0.07692105307440585, -0.06663571814171437, 0.05851026630948207,
        -0.0505243953902634, 0.038376662701895055, -0.018228595120434617,
    ),
}  # fmt: skip
"""(atan(r) - r) / r^3 in z = r^2, |r| <= tan(pi / 8); relative.

Error before rounding: f32 2^-29.8, f64 2^-59.1.
"""

_TANGENT_OF_EIGHTH = math.tan(math.pi / 8)


def _folded(size: values.Value) -> tuple[values.Value, values.Value, values.Value]:
    """Return (near, r, rest): asin(r) = r + rest; r is size, else sqrt((1 - size) / 2)."""
    near = size <= 0.5
    square = values.select(near, size * size, (1 - size) * 0.5)
    root = values.sqrt(square)
    error = values.fma(-root, root, square) / values.select(root > 0, root + root, 1.0)
    r = values.select(near, size, root)
    rest = values.fma(
        r * square,
        values.polynomial(square, ASIN[size.type]),
        values.select(near, size.constant(0), error),
    )
    return near, r, rest


def asin(x: values.Value) -> values.Value:
    """Return the arc sine; from 1/2 on it is pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    near, r, rest = _folded(abs(x))
    first, second = HALF_PI_PARTS[x.type]
    high, low = values.exact_sum_ordered(x.constant(first), -2 * r)
    far = high + (low + values.fma(rest, -2.0, second))
    result = values.with_sign(values.select(near, r + rest, far), x)
    return values.select(abs(x) >= TINY[x.type], result, x)


def acos(x: values.Value) -> values.Value:
    """Return pi/2 - asin(x) near 0, else 2 asin(sqrt((1 - |x|) / 2)), or pi minus that."""
    near, r, rest = _folded(abs(x))
    first, second = HALF_PI_PARTS[x.type]
    below = x < 0
    # The angle is multiple * pi/2 + factor * (r + rest).
    sign = values.select(below, x.constant(1), -1.0)
    factor = values.select(near, sign, -2 * sign)
    multiple = values.select(near, x.constant(1), values.select(below, x.constant(2), 0.0))
    high, low = values.exact_sum_ordered(multiple * first, factor * r)
    return high + (low + values.fma(factor, rest, multiple * second))


def _angle(
    shorter: values.Value, longer: values.Value, steep: values.Value, behind: values.Value | None
) -> values.Value:
    """Return the angle, >= 0, whose tangent is shorter / longer, or the inverse if `steep`.

    If `behind`, the abscissa is negative and the result is pi minus the angle.
    """
    name = shorter.type
    turned = shorter > longer * _TANGENT_OF_EIGHTH
    top = values.select(turned, shorter - longer, shorter)
    sum_high, sum_low = values.exact_sum_ordered(longer, shorter)
    bottom = values.select(turned, sum_high, longer)
    bottom_low = values.select(turned, sum_low, 0.0)
    top_low = values.select(turned, shorter - (top + longer), 0.0)
    r = top / bottom
    error = (values.fma(-r, bottom, top) + values.fma(-r, bottom_low, top_low)) / bottom
    z = r * r
    rest = values.fma(r * z, values.polynomial(z, ATAN[name]), error)
    # The angle is eighths * pi/4 + sign * (r + rest).
    eighths = values.select(turned, r.constant(1), 0.0)
    sign = values.select(steep, r.constant(-1), 1.0)
    eighths = values.select(steep, 2 - eighths, eighths)
    if behind is not None:
        sign = values.select(behind, -sign, sign)
        eighths = values.select(behind, 4 - eighths, eighths)
    first, second = QUARTER_PI_PARTS[name]
    base = eighths * first
    base_low = values.fma(eighths, first, -base) + eighths * second
    high, low = values.exact_sum_ordered(base, sign * r)
    return high + (low + values.fma(sign, rest, base_low))


_STEEPEST = {"f32": 2.0**40, "f64": 2.0**80}
"""Smallest tangent whose arc tangent is pi/2."""


def atan(x: values.Value) -> values.Value:
    """The angle between -pi/2 and pi/2."""
    size = values.at_most(abs(x), _STEEPEST[x.type])
    steep = size > 1
    result = _angle(
        values.select(steep, x.constant(1), size), values.select(steep, size, 1.0), steep, None
    )
    return values.select(abs(x) >= TINY[x.type], values.with_sign(result, x), x)


def atan2(y: values.Value, x: values.Value) -> values.Value:
    """The angle of the point (x, y) between -pi and pi."""
    form = x.format
    height, width = abs(y), abs(x)
    steep = height > width
    longer, shorter = values.select(steep, height, width), values.select(steep, width, height)
    endless = longer.equals(math.inf)
    one = x.constant(1)
    shorter = values.select(endless, values.select(shorter.equals(math.inf), one, 0.0), shorter)
    longer = values.select(endless | longer.equals(0), one, longer)
    # Scale by a power of two so that the longer is near 1 and nothing overflows or underflows.
    exponent = (values.bits(longer) >> form.fraction) * -1 + 2 * form.bias
    exponent = values.select(exponent > 1, exponent, 1)
    scale = values.of_bits(exponent << form.fraction)
    behind = values.bits(x) < 0
    result = _angle(shorter * scale, longer * scale, steep, behind)
    return values.select(x.differs(x) | y.differs(y), x + y, values.with_sign(result, y))


FORMULAS = {**values.family(asin, acos, atan), **values.family(atan2, operands=2)}
"""Every function of this module by its name in kernels."""
