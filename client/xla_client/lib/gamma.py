"""The logarithm of the gamma function, its derivatives, and the zeta function.

Operands of any floating type are computed in f64, and the result is converted to their type.
Operands that are not of one floating type raise InvalidArgumentError.
"""

import math

from xla_client import ops
from xla_client.lib import constants, floats
from xla_client.lib.special import polynomial
from xla_client.ops.elementwise.double_precision import in_double_precision
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op

_SHIFT = 10
"""Smallest argument for which the asymptotic series are accurate to the last digit; smaller
arguments are shifted up by this.
"""

_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip
"""B2, B4 ... B24."""


@in_double_precision()
def lgamma(operand: Op) -> Op:
    """The logarithm of the absolute value of the gamma function; inf at 0, -1, -2 ..."""
    return lgamma_of_double(operand)


@in_double_precision()
def digamma(operand: Op) -> Op:
    """The derivative of `lgamma`; NaN at 0, -1, -2 ..."""
    return digamma_of_double(operand)


@in_double_precision(
    "It is defined for x > 1 and q > 0. At the poles, x = 1 or q = 0, -1 ..., it is inf, elsewhere "
    "NaN. XLA's Zeta also has values between the poles of q.",
    x="the exponents",
)
def zeta(x: Op, q: Op) -> Op:
    """The Hurwitz zeta function, the sum of (q + k)^-x over k = 0, 1 ..."""
    return _zeta(x, q)


@in_double_precision(
    "It is NaN for other n, and for n > 0 at negative x, except at the poles: x = 0, -1 ... give "
    "inf or -inf.",
    n="the orders",
)
def polygamma(n: Op, x: Op) -> Op:
    """The n-th derivative of `digamma`, for n = 0, 1 ..."""
    sign = ops.select(ops.eq(ops.rem(n, 2.0), 0.0), constants.full_like(n, -1.0), 1.0)
    higher = sign * ops.exp(lgamma_of_double(n + 1.0)) * _zeta(n + 1.0, x)
    value = ops.select(ops.eq(n, 0.0), digamma_of_double(x), higher)
    return _nan_unless(ops.and_(ops.ge(n, 0.0), ops.eq(n, ops.floor(n))), value)


@checked
def lgamma_of_double(x: Op) -> Op:
    """The function `lgamma` on f64 operands, without conversions.

    Args:
        x: An array of f64.

    Returns:
        The results, of the operand's shape.

    Raises:
        ShapeError: The element type is complex.
        InvalidArgumentError: The element type does not have the coefficients of the series.

    Example:
        >>> x = Builder("example").parameter(0, "f64[3]")
        >>> print(lib.gamma.lgamma_of_double(x).shape)
        f64[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    # Reflected, the argument is positive.
    is_low = ops.le(x, 0.0)
    z = ops.select(is_low, 1.0 - x, x)
    above = _log_gamma_above_zero(z)
    fraction = ops.abs(x - ops.round_nearest_even(x))
    reflected = math.log(math.pi) - ops.log(ops.sin(fraction * math.pi)) - above
    value = ops.select(is_low, reflected, above)
    return ops.select(floats.is_inf(x), ops.abs(x), value)


@checked
def digamma_of_double(x: Op) -> Op:
    """The function `digamma` on f64 operands, without conversions.

    Args:
        x: An array of f64.

    Returns:
        The results, of the operand's shape.

    Raises:
        ShapeError: The element type is complex.
        InvalidArgumentError: The element type does not have the coefficients of the series.

    Example:
        >>> x = Builder("example").parameter(0, "f64[3]")
        >>> print(lib.gamma.digamma_of_double(x).shape)
        f64[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    is_low = ops.le(x, 0.0)
    z = ops.select(is_low, 1.0 - x, x)
    is_small = ops.lt(z, float(_SHIFT))
    moved = ops.select(is_small, z + float(_SHIFT), z)
    below = constants.zeros_like(z)
    for step in range(_SHIFT):
        below = below + 1.0 / (z + float(step))
    square = 1.0 / (moved * moved)
    terms = [-number / (2 * k) for k, number in enumerate(_BERNOULLI[:8], 1)]
    series = polynomial(square, [*reversed(terms), 0.0])
    above = ops.log(moved) - 0.5 / moved + series
    above = ops.select(is_small, above - below, above)
    fraction = x - ops.round_nearest_even(x)
    reflected = above - math.pi / ops.tan(fraction * math.pi)
    value = ops.select(is_low, reflected, above)
    return _nan_unless(ops.not_(ops.and_(is_low, ops.eq(x, ops.floor(x)))), value)


def _log_gamma_above_zero(z: Op) -> Op:
    """Stirling's series; small arguments are shifted up first."""
    is_small = ops.lt(z, float(_SHIFT))
    moved = ops.select(is_small, z + float(_SHIFT), z)
    product = z
    for step in range(1, _SHIFT):
        product = product * (z + float(step))
    reciprocal = 1.0 / moved
    terms = [number / (2 * k * (2 * k - 1)) for k, number in enumerate(_BERNOULLI[:8], 1)]
    series = polynomial(reciprocal * reciprocal, terms[::-1]) * reciprocal
    value = (moved - 0.5) * ops.log(moved) - moved + (0.5 * math.log(2 * math.pi)) + series
    return ops.select(is_small, value - ops.log(product), value)


def _zeta(x: Op, q: Op) -> Op:
    """Euler and Maclaurin's formula: some terms of the sum, and a series for the rest."""
    total = constants.zeros_like(x)
    for step in range(_SHIFT):
        total = total + ops.pow(q + float(step), -x)
    rest = q + float(_SHIFT)
    power = ops.pow(rest, -x)
    total = total + power * rest / (x - 1.0) + power * 0.5
    factor = power / rest * x
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + factor * (number / math.factorial(2 * k))
        factor = factor / (rest * rest) * ((x + float(2 * k - 1)) * (x + float(2 * k)))
    value = _nan_unless(ops.and_(ops.gt(x, 1.0), ops.gt(q, 0.0)), total)
    at_a_pole = ops.and_(ops.le(q, 0.0), ops.eq(q, ops.floor(q)))
    is_infinite = ops.or_(ops.eq(x, 1.0), ops.and_(at_a_pole, ops.gt(x, 1.0)))
    return ops.select(is_infinite, float("inf"), value)


def _nan_unless(condition: Op, value: Op) -> Op:
    return ops.select(condition, value, float("nan"))
