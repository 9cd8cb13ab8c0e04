"""asin, acos, atan and atan2."""

import math

from xla_server.codegen.functions.real.coefficients import ASIN, ATAN
from xla_server.codegen.functions.real.exponential import TINY
from xla_server.codegen.functions.real.irrational import HALF_PI_PARTS, QUARTER_PI_PARTS
from xla_server.codegen.functions.values import (
    Value,
    at_most,
    bits,
    exact_sum_ordered,
    family,
    fma,
    of_bits,
    polynomial,
    select,
    sqrt,
    with_sign,
)

_TANGENT_OF_EIGHTH = math.tan(math.pi / 8)


def _folded(size: Value) -> tuple[Value, Value, Value]:
    """(near, r, rest): asin(r) = r + rest, r = size or, not near 0, sqrt((1 - size) / 2)."""
    near = size <= 0.5
    square = select(near, size * size, (1 - size) * 0.5)
    root = sqrt(square)
    error = fma(-root, root, square) / select(root > 0, root + root, 1.0)
    r = select(near, size, root)
    rest = fma(
        r * square, polynomial(square, ASIN[size.type]), select(near, size.constant(0), error)
    )
    return near, r, rest


def asin(x: Value) -> Value:
    """The angle; from 1/2 on it is pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    near, r, rest = _folded(abs(x))
    first, second = HALF_PI_PARTS[x.type]
    high, low = exact_sum_ordered(x.constant(first), -2 * r)
    far = high + (low + fma(rest, -2.0, second))
    result = with_sign(select(near, r + rest, far), x)
    return select(abs(x) >= TINY[x.type], result, x)


def acos(x: Value) -> Value:
    """pi/2 - asin(x) near 0, else 2 asin(sqrt((1 - |x|) / 2)) or pi less that."""
    near, r, rest = _folded(abs(x))
    first, second = HALF_PI_PARTS[x.type]
    below = x < 0
    # The angle is multiple * pi/2 + factor * (r + rest).
    sign = select(below, x.constant(1), -1.0)
    factor = select(near, sign, -2 * sign)
    multiple = select(near, x.constant(1), select(below, x.constant(2), 0.0))
    high, low = exact_sum_ordered(multiple * first, factor * r)
    return high + (low + fma(factor, rest, multiple * second))


def _angle(shorter: Value, longer: Value, steep: Value, behind: Value | None) -> Value:
    """The angle whose tangent is shorter / longer, or the reverse if `steep`, >= 0.

    If `behind`, the abscissa is negative and the result is pi minus the angle.
    """
    name = shorter.type
    turned = shorter > longer * _TANGENT_OF_EIGHTH
    top = select(turned, shorter - longer, shorter)
    sum_high, sum_low = exact_sum_ordered(longer, shorter)
    bottom = select(turned, sum_high, longer)
    bottom_low = select(turned, sum_low, 0.0)
    top_low = select(turned, shorter - (top + longer), 0.0)
    r = top / bottom
    error = (fma(-r, bottom, top) + fma(-r, bottom_low, top_low)) / bottom
    z = r * r
    rest = fma(r * z, polynomial(z, ATAN[name]), error)
    # The angle is eighths * pi/4 + sign * (r + rest).
    eighths = select(turned, r.constant(1), 0.0)
    sign = select(steep, r.constant(-1), 1.0)
    eighths = select(steep, 2 - eighths, eighths)
    if behind is not None:
        sign = select(behind, -sign, sign)
        eighths = select(behind, 4 - eighths, eighths)
    first, second = QUARTER_PI_PARTS[name]
    base = eighths * first
    base_low = fma(eighths, first, -base) + eighths * second
    high, low = exact_sum_ordered(base, sign * r)
    return high + (low + fma(sign, rest, base_low))


_STEEPEST = {"f32": 2.0**40, "f64": 2.0**80}
"""Smallest tangent whose arc tangent is pi/2."""


def atan(x: Value) -> Value:
    """The angle between -pi/2 and pi/2."""
    size = at_most(abs(x), _STEEPEST[x.type])
    steep = size > 1
    result = _angle(select(steep, x.constant(1), size), select(steep, size, 1.0), steep, None)
    return select(abs(x) >= TINY[x.type], with_sign(result, x), x)


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y) between -pi and pi."""
    form = x.format
    height, width = abs(y), abs(x)
    steep = height > width
    longer, shorter = select(steep, height, width), select(steep, width, height)
    endless = longer.equals(math.inf)
    one = x.constant(1)
    shorter = select(endless, select(shorter.equals(math.inf), one, 0.0), shorter)
    longer = select(endless | longer.equals(0), one, longer)
    # Scale by a power of two that brings the longer near 1, so that nothing overflows or is lost.
    exponent = (bits(longer) >> form.fraction) * -1 + 2 * form.bias
    exponent = select(exponent > 1, exponent, 1)
    scale = of_bits(exponent << form.fraction)
    behind = bits(x) < 0
    result = _angle(shorter * scale, longer * scale, steep, behind)
    return select(x.differs(x) | y.differs(y), x + y, with_sign(result, y))


INVERSE_TRIGONOMETRIC = {**family(asin, acos, atan), **family(atan2, operands=2)}
"""Every function of this module by its name in kernels."""
