"""Special functions of `xla_client.lib` on a real server, against scipy and numpy."""

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special as scipy_special

from xla_client import Builder, InvalidArgumentError, Shape
from xla_client.lib import bessel, floats, gamma, incomplete, special

INF, NAN = np.inf, np.nan
RANDOM = np.random.default_rng(0)
LINE = np.concatenate(
    [
        RANDOM.standard_normal(200) * 3,
        RANDOM.standard_normal(60) * 40,
        [0.0, -0.0, 1, 2, 1e-8, -1e-8, 1e-300, 8, 30, -30, 1e10, INF, -INF, NAN],
    ]
)
POSITIVE = np.concatenate([RANDOM.gamma(1, 3, 120), [1e-3, 0.5, 1, 2, 20, 150, 1000, 1e4]])
A, X = POSITIVE, POSITIVE * np.exp(0.7 * RANDOM.standard_normal(POSITIVE.size))


def _close(found: Any, expected: Any, rtol: float = 3e-13, atol: float = 1e-14) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (special.erfc, scipy_special.erfc),
        (bessel.bessel_i0e, scipy_special.i0e),
        (bessel.bessel_i1e, scipy_special.i1e),
        (gamma.lgamma, lambda x: np.where(np.isinf(x), np.abs(x), scipy_special.gammaln(x))),
    ],
    ids=["erfc", "i0e", "i1e", "lgamma"],
)
def test_functions_on_the_whole_line(run, function, reference):
    _close(run(function, LINE), reference(LINE))
    single = LINE.astype(np.float32)
    expected = reference(single.astype(np.float64)).astype(np.float32)
    _close(run(function, single), expected, rtol=2e-7, atol=0 if function != gamma.lgamma else 2e-7)


def test_erfc_keeps_its_digits_where_it_is_small(run):
    x = np.linspace(0, 26, 100)
    _close(run(special.erfc, x), np.array(list(map(math.erfc, x))), rtol=2e-14, atol=0)


def test_digamma_and_its_derivatives(run):
    x = LINE[(LINE != 0) & np.isfinite(LINE)]
    _close(run(gamma.digamma, x), scipy_special.digamma(x), rtol=1e-12)
    ends = run(gamma.digamma, np.float64([0, -0.0, -1, -7, INF, -INF, NAN]))
    np.testing.assert_array_equal(ends, [NAN, NAN, NAN, NAN, INF, NAN, NAN])
    n, x = (each.ravel() for each in np.meshgrid(np.arange(6.0), POSITIVE[:100]))
    _close(run(gamma.polygamma, n, x), scipy_special.polygamma(n.astype(int), x), rtol=2e-13)
    others = run(gamma.polygamma, np.float32([-1, 0.5, NAN]), np.float32([1, 1, 1]))
    np.testing.assert_array_equal(others, np.full(3, NAN, np.float32))


def test_zeta(run):
    x, q = 1 + RANDOM.gamma(1, 4, 200), RANDOM.gamma(1, 5, 200)
    _close(run(gamma.zeta, x, q), scipy_special.zeta(x, q))
    x, q = np.float64([2, 1, 2, 2, 0.5, 2.5, INF]), np.float64([1, 3, 0, -3, 1, -0.5, 2])
    found = run(gamma.zeta, x, q)
    np.testing.assert_allclose(found[0], np.pi**2 / 6, rtol=1e-15)
    np.testing.assert_array_equal(found[1:6], [INF, INF, INF, NAN, NAN])


def test_incomplete_gamma(run):
    _close(run(incomplete.igamma, A, X), scipy_special.gammainc(A, X), rtol=1e-11)
    _close(run(incomplete.igammac, A, X), scipy_special.gammaincc(A, X), rtol=1e-10)
    single = [each.astype(np.float32) for each in (A, X)]
    wide = [each.astype(np.float64) for each in single]
    expected = scipy_special.gammaincc(*wide).astype(np.float32)
    _close(run(incomplete.igammac, *single), expected, rtol=2e-7)
    a = np.float64([1, 1, 0, -1, 2, 2, NAN, 1])
    x = np.float64([0, INF, 1, 1, -1, NAN, 1, 1e-300])
    expected = [0, 1, NAN, NAN, NAN, NAN, NAN, 1e-300]
    np.testing.assert_allclose(run(incomplete.igamma, a, x), expected, rtol=1e-12)
    np.testing.assert_array_equal(run(incomplete.igammac, a, x)[:3], [1, 0, NAN])


def test_derivatives_of_the_incomplete_gamma(run):
    inside = A < 500
    a, x = A[inside], X[inside]
    step = 2e-3 * np.minimum(a, np.sqrt(a))
    near, far = (
        scipy_special.gammainc(a + width, x) - scipy_special.gammainc(a - width, x)
        for width in (step, 2 * step)
    )
    slope = run(incomplete.igamma_grad_a, a, x)
    _close(slope, (8 * near - far) / (12 * step), rtol=1e-7, atol=1e-10)
    moved = run(incomplete.random_gamma_grad, a, x)
    with np.errstate(over="ignore", divide="ignore"):
        density = np.exp((a - 1) * np.log(x) - x - scipy_special.gammaln(a))
        expected = np.where(density > 1e-280, -slope / density, moved)
    _close(moved, expected, rtol=1e-10)
    ends = run(incomplete.igamma_grad_a, np.float64([1, 1, -1]), np.float64([0, INF, 1]))
    np.testing.assert_array_equal(ends, [0, 0, NAN])


def test_incomplete_beta(run):
    sizes = [1e-2, 0.5, 1, 3.25, 40, 900]
    places = [0.0, 1e-9, 0.02, 0.3, 0.5, 0.77, 0.999, 1.0]
    a, b, x = np.array(list(itertools.product(sizes, sizes, places))).T.copy()
    _close(
        run(incomplete.regularized_incomplete_beta, a, b, x),
        scipy_special.betainc(a, b, x),
        rtol=1e-10,
        atol=1e-12,
    )
    single = [each.astype(np.float32) for each in (a, b, x)]
    expected = scipy_special.betainc(*(each.astype(np.float64) for each in single))
    found = run(incomplete.regularized_incomplete_beta, *single)
    _close(found, expected.astype(np.float32), rtol=2e-7, atol=1e-13)
    a, b, x = np.float64([[0, 1, 0.5], [1, -1, 0.5], [1, 1, -0.1], [1, 1, 1.5], [NAN, 1, 0]]).T
    found = run(incomplete.regularized_incomplete_beta, a, b, x)
    np.testing.assert_array_equal(found, np.full(5, NAN))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_neighbours(run, dtype):
    info = ml_dtypes.finfo(dtype)
    tiny = float(info.smallest_subnormal)
    values = [0, -0.0, tiny, -tiny, 1, -1, 2, float(info.max), float(info.min), INF, -INF, NAN]
    start, towards = (each.ravel().astype(dtype) for each in np.meshgrid(values, values))
    found = run(floats.next_after, start, towards)
    with np.errstate(all="ignore"):
        expected = np.nextafter(start, towards)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
    # The second of two zeros is the result; numpy's f16 gives the first.
    expected[start == towards] = towards[start == towards]
    numbers = ~np.isnan(found)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def test_questions_about_floats(run):
    x = np.float32([0.0, -0.0, 1, INF, -INF, NAN])
    functions = [
        floats.is_nan, floats.is_inf, floats.is_pos_inf, floats.is_neg_inf, floats.is_neg_zero
    ]  # fmt: skip
    found = run(lambda x: [function(x) for function in functions], x)
    assert [np.flatnonzero(each).tolist() for each in found] == [[5], [3, 4], [3], [4], [1]]
    square, reciprocal = run(lambda x: [floats.square(x), floats.reciprocal(x)], np.float32([4]))
    assert (square.item(), reciprocal.item()) == (16, 0.25)


def test_series_of_chebyshev_polynomials(run):
    x, coefficients = np.linspace(-1, 1, 9), [0.5, -1.0, 0.25, 2.0]
    found = run(lambda x: special.chebyshev(x, coefficients), x)
    np.testing.assert_allclose(found, np.polynomial.chebyshev.chebval(x, coefficients), atol=1e-15)
    np.testing.assert_array_equal(run(lambda x: special.chebyshev(x, []), x), np.zeros(9))


@pytest.mark.parametrize(
    ("function", "shapes", "message"),
    [
        (gamma.lgamma, ["s32[3]"], r"lgamma needs operands of one floating type, got s32\[3\]"),
        (gamma.polygamma, ["f32[3]", "f64[3]"], r"got f32\[3\], f64\[3\]"),
        (bessel.bessel_i0e, ["c64[]"], r"got c64\[\]"),
        (floats.next_after, ["f8e5m2[]", "f8e5m2[]"], "needs f16, bf16, f32 or f64"),
        (floats.is_neg_zero, ["s32[]"], r"got s32\[\]"),
    ],
)
def test_other_types_are_refused(function, shapes, message):
    builder = Builder("special")
    operands = [builder.parameter(n, Shape.parse(text)) for n, text in enumerate(shapes)]
    with pytest.raises(InvalidArgumentError, match=message):
        function(*operands)
