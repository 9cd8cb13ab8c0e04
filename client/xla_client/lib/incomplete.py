"""The incomplete gamma and beta functions, by power series and continued fractions.

Operands of any floating type are computed in f64, and the result is converted to their type.
Operands that are not of one floating type raise InvalidArgumentError. The continued fractions are
evaluated by Lentz's algorithm.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from xla_client import ops
from xla_client.lib import arithmetic, constants, loops
from xla_client.lib.gamma import digamma_of_double, lgamma_of_double
from xla_client.ops.elementwise.double_precision import in_double_precision
from xla_client.programs.builder import Op

_EPSILON = 2.0**-53
_TINY = 1e-300
_MAX_STEPS = 10_000
"""Half an ulp of 1 in f64, the smallest denominator in Lentz's method, and the most terms of a
series."""

_NAN, _INF = float("nan"), float("inf")

_Step: TypeAlias = Callable[[Op, list[Op]], tuple[Op, list[Op]]]
"""Maps the number of a step and the values to a mask of unfinished elements and the new values."""


class _Expansion(NamedTuple):
    """A series or fraction without the factor before it, and its derivative with respect to a."""

    value: Op
    slope: Op


@in_double_precision()
def igamma(a: Op, x: Op) -> Op:
    """The regularized lower incomplete gamma function, for a > 0 and x >= 0; NaN elsewhere."""
    by_fraction, factor, series, fraction = _expanded(a, x)
    value = ops.select(by_fraction, 1.0 - factor * fraction.value, factor / a * series.value)
    value = ops.select(ops.eq(x, 0.0), 0.0, ops.select(ops.eq(x, _INF), 1.0, value))
    return _inside(a, x, value)


@in_double_precision()
def igammac(a: Op, x: Op) -> Op:
    """One minus `igamma`, accurate where that is close to one."""
    by_fraction, factor, series, fraction = _expanded(a, x)
    value = ops.select(by_fraction, factor * fraction.value, 1.0 - factor / a * series.value)
    value = ops.select(ops.eq(x, 0.0), 1.0, ops.select(ops.eq(x, _INF), 0.0, value))
    return _inside(a, x, value)


@in_double_precision()
def igamma_grad_a(a: Op, x: Op) -> Op:
    """The derivative of `igamma` with respect to a."""
    by_fraction, factor, series, fraction = _expanded(a, x)
    value = factor * _slope(a, x, by_fraction, series, fraction)
    is_flat = ops.or_(ops.eq(x, 0.0), ops.eq(x, _INF))
    return _inside(a, x, ops.select(is_flat, 0.0, value))


@in_double_precision(
    "It is minus the derivative of `igamma` with respect to a over that with respect to x.",
    a="the parameters",
    x="the samples",
)
def random_gamma_grad(a: Op, x: Op) -> Op:
    """The derivative of a sample x of the gamma distribution with respect to its parameter a."""
    by_fraction, _, series, fraction = _expanded(a, x)
    value = -x * _slope(a, x, by_fraction, series, fraction)
    return _inside(a, x, ops.select(ops.eq(x, 0.0), 0.0, value))


@in_double_precision()
def regularized_incomplete_beta(a: Op, b: Op, x: Op) -> Op:
    """The regularized incomplete beta function of x in [0, 1], for a, b > 0; NaN elsewhere."""
    # The fraction converges fast on this side; the other is its mirror image.
    mirrored = ops.gt(x, (a + 1.0) / (a + b + 2.0))
    first, second = ops.select(mirrored, b, a), ops.select(mirrored, a, b)
    argument = ops.select(mirrored, 1.0 - x, x)
    log_factor = (
        lgamma_of_double(a + b)
        - lgamma_of_double(a)
        - lgamma_of_double(b)
        + a * ops.log(x)
        + b * ops.log1p(-x)
    )
    part = ops.exp(log_factor) * _beta_fraction(first, second, argument) / first
    value = ops.select(mirrored, 1.0 - part, part)
    value = ops.select(ops.eq(x, 0.0), 0.0, ops.select(ops.eq(x, 1.0), 1.0, value))
    positive = ops.and_(ops.gt(a, 0.0), ops.gt(b, 0.0))
    is_inside = ops.and_(ops.ge(x, 0.0), ops.le(x, 1.0))
    return ops.select(ops.and_(positive, is_inside), value, _NAN)


def _inside(a: Op, x: Op, value: Op) -> Op:
    return ops.select(ops.and_(ops.gt(a, 0.0), ops.ge(x, 0.0)), value, _NAN)


def _expanded(a: Op, x: Op) -> tuple[Op, Op, _Expansion, _Expansion]:
    """Return where to take the fraction, x^a e^-x / gamma(a), the series and the fraction.

    Each is computed from valid dummy numbers where the other is selected.
    """
    by_fraction = ops.and_(ops.gt(x, 1.0), ops.gt(x, a))
    is_valid = ops.and_(ops.gt(a, 0.0), ops.and_(ops.ge(x, 0.0), ops.lt(x, _INF)))
    factor = ops.exp(a * ops.log(x) - x - lgamma_of_double(a))
    in_series = ops.and_(is_valid, ops.not_(by_fraction))
    in_fraction = ops.and_(is_valid, by_fraction)
    series = _series(ops.select(in_series, a, 1.0), ops.select(in_series, x, 0.5))
    fraction = _fraction(ops.select(in_fraction, a, 1.0), ops.select(in_fraction, x, 2.0))
    return by_fraction, factor, series, fraction


def _slope(a: Op, x: Op, by_fraction: Op, series: _Expansion, fraction: _Expansion) -> Op:
    """The derivative of igamma by a, without the factor x^a e^-x / gamma(a)."""
    logarithm = ops.log(x) - digamma_of_double(a)
    upper = -(logarithm * fraction.value + fraction.slope)
    lower = ((logarithm - 1.0 / a) * series.value + series.slope) / a
    return ops.select(by_fraction, upper, lower)


def _series(a: Op, x: Op) -> _Expansion:
    """The sum of x^n / ((a + 1) ... (a + n)) over n = 0, 1 ..."""
    one, zero = constants.ones_like(x), constants.zeros_like(x)

    def step(number: Op, values: list[Op]) -> tuple[Op, list[Op]]:
        a, x, term, slope, total, total_slope = values
        below = a + number
        slope = (slope - term / below) * (x / below)
        term = term * (x / below)
        new = [a, x, term, slope, total + term, total_slope + slope]
        is_small = ops.and_(
            ops.le(term, new[4] * _EPSILON), ops.le(ops.abs(slope), ops.abs(new[5]) * _EPSILON)
        )
        return ops.not_(is_small), new

    *_, total, total_slope = _converged(step, [a, x, one, zero, one, zero])
    return _Expansion(total, total_slope)


def _fraction(a: Op, x: Op) -> _Expansion:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...))."""
    first = 1.0 / (x + 1.0 - a)
    zero = constants.zeros_like(x)

    def step(number: Op, values: list[Op]) -> tuple[Op, list[Op]]:
        a, x, c, c_slope, d, d_slope, total, total_slope = values
        numerator = (a - number) * number
        denominator = x + 1.0 - a + number * 2.0
        new_d = 1.0 / (numerator * d + denominator)
        new_d_slope = -new_d * new_d * (number * d + numerator * d_slope - 1.0)
        new_c = denominator + numerator / c
        new_c_slope = number / c - numerator / (c * c) * c_slope - 1.0
        change = new_c * new_d
        change_slope = new_c_slope * new_d + new_c * new_d_slope
        new_total = total * change
        new_slope = total_slope * change + total * change_slope
        is_same = ops.and_(
            ops.le(ops.abs(change - 1.0), 4 * _EPSILON),
            ops.le(ops.abs(new_slope - total_slope), ops.abs(new_slope) * (8 * _EPSILON)),
        )
        new = [a, x, new_c, new_c_slope, new_d, new_d_slope, new_total, new_slope]
        return ops.not_(is_same), new

    initial = [a, x, constants.full_like(x, 1 / _TINY), zero, first, first * first]
    *_, total, slope = _converged(step, [*initial, first, first * first])
    return _Expansion(total, slope)


def _beta_fraction(a: Op, b: Op, x: Op) -> Op:
    """1 / (1 + d1 / (1 + d2 / ...)), two coefficients a step."""
    is_valid = ops.and_(ops.gt(a, 0.0), ops.gt(b, 0.0))
    is_valid = ops.and_(is_valid, ops.and_(ops.gt(x, 0.0), ops.lt(x, 1.0)))
    a, b = ops.select(is_valid, a, 1.0), ops.select(is_valid, b, 1.0)
    x = ops.select(is_valid, x, 0.25)
    first = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))

    def step(number: Op, values: list[Op]) -> tuple[Op, list[Op]]:
        a, b, x, c, d, total = values
        twice = a + number * 2.0
        even = number * (b - number) * x / ((twice - 1.0) * twice)
        odd = -(a + number) * (a + b + number) * x / (twice * (twice + 1.0))
        change = total
        for coefficient in (even, odd):
            d = 1.0 / _away_from_zero(coefficient * d + 1.0)
            c = _away_from_zero(coefficient / c + 1.0)
            change = c * d
            total = total * change
        return ops.gt(ops.abs(change - 1.0), 4 * _EPSILON), [a, b, x, c, d, total]

    one = constants.ones_like(x)
    *_, total = _converged(step, [a, b, x, one, first, first])
    return total


def _away_from_zero(value: Op) -> Op:
    return ops.select(ops.lt(ops.abs(value), _TINY), _TINY, value)


def _converged(step: _Step, initial: list[Op]) -> list[Op]:
    """Iterate `step`, from number 1, until no element is unfinished, at most _MAX_STEPS times."""
    builder = initial[0].builder

    def again(values: list[Op]) -> Op:
        return ops.and_(values[0], ops.lt(values[1], float(_MAX_STEPS)))

    def once(values: list[Op]) -> list[Op]:
        _, number, *state = values
        goes_on, state = step(number, state)
        return [arithmetic.any(goes_on), number + 1.0, *state]

    start = [builder.constant(True), builder.constant(np.float64(1)), *initial]
    return loops.while_loop(again, once, start)[2:]
