"""The arc tangent of a quotient of complex numbers, by sums of products that are rounded once.

With u = x + iy and v = x - iy, the real part is half of u's angle less v's, and the imaginary part
half of the logarithm of |v| / |u|. They follow from sums of products of the operands, which cancel
near u = 0 and v = 0.
"""

import math

from xla_server.codegen.functions import values
from xla_server.codegen.functions.complex.complex_values import Complex
from xla_server.codegen.functions.real import inverse_trigonometric, logarithm


def arctangent(y: Complex, x: Complex) -> Complex:
    """Return atan(y / x), if no square of a part overflows or is negligible beside the others."""
    across = _sum_of_products((x.real, y.real), (x.imag, y.imag))
    turned = _sum_of_products((x.real, y.imag), (-x.imag, y.real))
    along = _sum_of_products(
        (x.real, x.real), (x.imag, x.imag), (-y.real, y.real), (-y.imag, y.imag)
    )
    # u times v's conjugate is along + 2i across.
    angle = inverse_trigonometric.atan2(across * 2, along) * 0.5
    u, v = x + y.times_i(), x - y.times_i()
    first, second = (values.fma(z.real, z.real, z.imag * z.imag) for z in (u, v))
    smaller = values.select(first < second, first, second)
    squares = ((x.real, x.real), (x.imag, x.imag), (y.real, y.real), (y.imag, y.imag))
    twice = values.with_sign(turned.constant(2), turned)
    direct = _sum_of_products(*squares, (-(twice * x.real), y.imag), (twice * x.imag, y.real))
    # If u or v is small, its own squares are more exact than the sum of all products.
    smaller = values.select(smaller * 16 < first + second, smaller, direct)
    size = logarithm.log1p(abs(turned) * 4 / smaller) * 0.25
    return Complex(angle, values.with_sign(size, turned))


def with_half_turn(near: Complex, y: Complex, x: Complex, formula: Complex) -> Complex:
    """Add to `near` the half turn by which the real part of `formula` may differ.

    The real part is u's angle less half of the angle of x^2 + y^2. Both angles are computed again
    here, as the rounding of `formula` could be on the wrong side of their branch cuts.
    """
    squares = x * x + y * y
    along = _sum_of_products(
        (x.real, x.real), (-x.imag, x.imag), (y.real, y.real), (-y.imag, y.imag)
    )
    across = _sum_of_products((x.real, x.imag), (y.real, y.imag))
    across = _with_sign_of_zero(across, squares.imag)
    u = x + y.times_i()
    angle = inverse_trigonometric.atan2
    direction = angle(u.imag, u.real) - angle(across * 2, along) * 0.5
    distance = abs(direction - near.real)
    beyond = (distance > math.pi / 2) & (distance < 3 * math.pi / 2)
    back = values.select(near.real.equals(0), direction, -near.real)
    turned = near.real + values.with_sign(near.real.constant(math.pi), back)
    return Complex(
        _with_sign_of_zero(values.select(beyond, turned, near.real), formula.real),
        _with_sign_of_zero(near.imag, formula.imag),
    )


def _with_sign_of_zero(part: values.Value, signed: values.Value) -> values.Value:
    """Return a part; if it is zero, with the sign of the other number."""
    return values.select(part.equals(0), values.with_sign(part, signed), part)


def _sum_of_products(*pairs: tuple[values.Value, values.Value]) -> values.Value:
    """Return a sum of products as if computed in twice the precision and then rounded."""
    (total, low), *others = (values.exact_product(*pair) for pair in pairs)
    for product, error in others:
        total, rest = values.exact_sum(total, product)
        low = low + (error + rest)
    return total + low
