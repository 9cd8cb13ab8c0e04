"""Sums of many numbers are as exact as sums by halves: log2(n) roundings, in whatever form."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, on_cpu

_RANDOM = np.random.default_rng(0)

_HALF_UNIT = {
    "float32": 2.0**-24,
    "float64": 2.0**-53,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}


def _of(dtype: Any, *dimensions: int) -> Any:
    # Numbers of one sign: every rounding is of a sum as large as the result.
    numbers = _RANDOM.uniform(0.5, 1, dimensions)
    if np.dtype(dtype).kind == "c":
        return (numbers + 1j * _RANDOM.uniform(0.5, 1, dimensions)).astype(dtype)
    return numbers.astype(dtype)


_WIDE = {
    "float32": np.float64,
    "float64": np.longdouble,
    "complex64": np.complex128,
    "complex128": np.clongdouble,
}


def _exact(x: Any) -> Any:
    return x.astype(_WIDE[str(x.dtype)])


def _rows(x: Any) -> Any:
    return x.sum(-1)


def _columns(x: Any) -> Any:
    return x.sum(0)


def _middle(x: Any) -> Any:
    return x.sum(1)


def _around(x: Any) -> Any:
    return x.sum((0, 2))


def _leading(x: Any) -> Any:
    return x.sum((0, 1))


def _all(x: Any) -> Any:
    return x.sum()


FORMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "rows": (_rows, (20, 5000)),
    "all": (_all, (300_001,)),
    "columns": (_columns, (16384, 1100)),
    "few columns": (_columns, (9000, 33)),
    "columns, three levels": (_columns, (300_000, 3)),
    "short columns": (_columns, (1021, 20)),
    "middle": (_middle, (20, 16384, 60)),
    "leading": (_leading, (300, 3, 1030)),
    "leading, many by few": (_leading, (4000, 2, 300)),
    "around": (_around, (190, 3, 100)),
    "around, short inside": (_around, (6000, 4, 3)),
}


def _check(summed: Any, expected: Any, count: int, kind: str, more: float = 0.0) -> None:
    bound = math.log2(count) * _HALF_UNIT[kind] + more
    error = float(np.max(np.abs(_exact(summed) - expected) / np.abs(expected)))
    assert error <= bound, f"{error:.3g} beyond {bound:.3g}"


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        *((form, kind) for form in FORMS for kind in ("float32", "complex64")),
        *((form, kind) for form in ("all", "short columns") for kind in ("float64", "complex128")),
        ("around", "float64"),
    ],
)
def test_sums(form: str, kind: str) -> None:
    function, dimensions = FORMS[form]
    if kind != "float32" and math.prod(dimensions) > 1_000_000:
        dimensions = (dimensions[0], *(max(2, d // 16) for d in dimensions[1:]))
    x = _of(kind, *dimensions)
    expected = function(_exact(x))
    with jax.enable_x64(True):
        module = imported(lower(function, x))
    (summed,) = on_cpu(module, [x])
    _check(summed, expected, x.size // expected.size, kind)


@pytest.mark.parametrize("form", ["rows", "short columns", "middle", "all"])
@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, np.float16])
def test_narrow_sums_are_rounded_once(form: str, kind: Any) -> None:
    function, dimensions = FORMS[form]
    x = (_of("float32", *dimensions) / 1024).astype(kind)
    module = imported(lower(function, x))
    (summed,) = on_cpu(module, [x])
    expected = function(_exact(x.astype(np.float32)))
    once = 2.0**-8 if kind is ml_dtypes.bfloat16 else 2.0**-11
    _check(summed.astype(np.float32), expected, x.size // expected.size, "float32", once)


@pytest.mark.parametrize("dimensions", [(200_000,), (9000, 40), (5, 9000, 3)])
def test_several_sums_at_once(dimensions: tuple[int, ...]) -> None:
    def both(x: Any, y: Any) -> Any:
        zero = np.float32(0)
        return jax.lax.reduce(
            (x, y),
            (zero, zero),
            lambda a, b: (a[0] + b[0], b[1] + a[1]),
            (min(1, len(dimensions) - 1) if len(dimensions) == 3 else 0,),
        )

    axis = 1 if len(dimensions) == 3 else 0
    arrays = [_of("float32", *dimensions), _of("float32", *dimensions)]
    for summed, x in zip(on_cpu(imported(lower(both, *arrays)), arrays), arrays, strict=True):
        _check(summed, _exact(x).sum(axis), dimensions[axis], "float32")


@pytest.mark.parametrize("kind", ["float32", "complex64"])
def test_padded_windows(kind: str) -> None:
    x = _of(kind, 40_000)

    def windows(x: Any) -> Any:
        return jax.lax.reduce_window(
            x, np.zeros((), kind), jax.lax.add, (20_000,), (9_000,), ((500, 0),)
        )

    with jax.enable_x64(True):
        module = imported(lower(windows, x))
    (summed,) = on_cpu(module, [x])
    expected = np.array(
        [_exact(x)[max(0, low) : low + 20_000].sum() for low in range(-500, 20_001, 9_000)]
    )
    _check(summed, expected, 20_000, kind)


@pytest.mark.parametrize("kind", _HALF_UNIT)
@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums(kind: str, axis: int) -> None:
    x = _of(kind, *((30_000, 3) if axis == 0 else (3, 30_000)))
    with jax.enable_x64(True):
        module = imported(lower(lambda x: jnp.cumsum(x, axis), x))
    (summed,) = on_cpu(module, [x])
    _check(summed, np.cumsum(_exact(x), axis), 30_000, kind)


@pytest.mark.parametrize("kind", ["float32", "complex64"])
def test_products(kind: str) -> None:
    left, right = _of(kind, 5, 20_001), _of(kind, 5, 20_001)
    module = imported(lower(lambda a, b: jnp.einsum("bn,bn->b", a, b), left, right))
    (summed,) = on_cpu(module, [left, right])
    # Each product is rounded too.
    more = 4 * _HALF_UNIT[kind]
    _check(summed, (_exact(left) * _exact(right)).sum(1), 20_001, kind, more)


def test_sums_beside_extrema() -> None:
    x = _of("float32", 3000, 40)
    module = imported(lower(lambda x: (x.sum(0), x.max(0), (2 * x).sum(0), x.min(0)), x))
    total, most, twice, least = on_cpu(module, [x])
    _check(total, _exact(x).sum(0), 3000, "float32")
    _check(twice, _exact(x).sum(0) * 2, 3000, "float32")
    np.testing.assert_array_equal(most, x.max(0))
    np.testing.assert_array_equal(least, x.min(0))


def test_means_and_variances() -> None:
    x = _of("float32", 20_000, 60)
    module = imported(lower(lambda x: (x.mean(0), x.var(0), x.var()), x))
    means, variances, variance = on_cpu(module, [x])
    _check(means, _exact(x).mean(0), 20_000, "float32")
    for found, expected in ((variances, _exact(x).var(0)), (variance, _exact(x).var())):
        _check(found, expected, x.size, "float32")


def test_running_sums_beyond_the_largest_number() -> None:
    x = np.array([[1e308, 1e308, 1, -np.inf, 2], [-0.0, -0.0, 1e308, np.nan, 1]])
    with jax.enable_x64(True):
        module = imported(lower(lambda x: jnp.cumsum(x, 1), x))
    (summed,) = on_cpu(module, [x])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(summed, np.cumsum(x, 1))
