"""Bounds of the distance of sums of products to XLA's: the order of its additions is its own.

A result r of n terms t1 ... tn is held within

    n * eps(type of the accumulation) * (|t1| + ... + |tn|) + eps(type of r) * |r|

where eps is the distance from 1 to the next number. Both sides are held to the same exact value,
so the first part counts twice. The sum of magnitudes is computed in f64 from the same operands
with every sign taken away.

Where magnitudes add up to more than the type holds, the order decides what becomes infinite, and
the element is not compared. Otherwise infinities and NaN must be the same.
"""

from typing import Any

import ml_dtypes
import numpy as np


def info(dtype: Any) -> Any:
    """The finfo of a floating type, or of the parts of a complex one."""
    numbers: Any = ml_dtypes
    return numbers.finfo(dtype)


def wide(array: Any) -> Any:
    """The array in f64, or c128."""
    array = np.asarray(array)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def magnitudes(array: Any) -> Any:
    """|x| in f64; of what is not finite 0, so that it bounds nothing."""
    with np.errstate(all="ignore"):
        found = np.abs(wide(array))
    return np.where(np.isfinite(found), found, 0.0)


def assert_sums(
    ours: Any, theirs: Any, scale: Any, terms: int, accumulated_in: Any | None = None
) -> None:
    """Sums of `terms` numbers whose magnitudes add up to `scale`, element by element."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    of_result = info(ours.dtype)
    of_sums = info(ours.dtype if accumulated_in is None else accumulated_in)
    scale = np.broadcast_to(scale, ours.shape)
    eps = max(float(of_sums.eps), 0.0)
    tiny = 4 * float(max(of_sums.smallest_normal, of_result.smallest_normal))
    with np.errstate(all="ignore"):
        bound = (
            2 * max(terms, 1) * eps * scale + float(of_result.eps) * scale + max(terms, 1) * tiny
        )
        limit = float(min(of_result.max, of_sums.max))
        assert_within(ours, theirs, bound, settled=scale * (1 + 2 * terms * eps) < limit)


def assert_within(ours: Any, theirs: Any, bound: Any, settled: Any = True) -> None:
    """|ours - theirs| at most `bound`, both finite or the same special value, where `settled`."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    settled = np.broadcast_to(settled, ours.shape)
    if ours.dtype.kind == "c":
        for part in ("real", "imag"):
            assert_within(getattr(ours, part), getattr(theirs, part), bound, settled)
        return
    mine, other = wide(ours), wide(theirs)
    special = ~np.isfinite(mine) | ~np.isfinite(other)
    with np.errstate(all="ignore"):
        far = ~special & (np.abs(mine - other) > bound)
    unlike = special & ~((mine == other) | (np.isnan(mine) & np.isnan(other)))
    wrong = (far | unlike) & settled
    if wrong.any():
        place = tuple(int(index[0]) for index in np.nonzero(wrong)) if wrong.ndim else ()
        limit = np.broadcast_to(bound, ours.shape)[place]
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} differ, first at {place}: ours {mine[place]!r}, "
            f"XLA's {other[place]!r}, bound {limit!r}"
        )


def assert_products(ours: Any, theirs: Any, array: Any, axes: tuple[int, ...]) -> None:
    """Products of the elements along some dimensions: n * eps of the result, relatively.

    Not compared where some order of the factors leaves the type's normal range on the way.
    """
    factors = magnitudes(array)
    of_result = info(ours.dtype)
    factors = np.where(np.isfinite(wide(array)) & (factors > 0), factors, 1.0)
    terms = factors.size // max(1, ours.size) + 1
    with np.errstate(all="ignore"):
        above = np.maximum(factors, 1).prod(axes)
        below = np.minimum(factors, 1).prod(axes)
        settled = (above * 4 < float(of_result.max)) & (
            below > 4 * float(of_result.smallest_normal)
        )
        size = np.abs(wide(theirs))
        bound = 4 * terms * float(of_result.eps) * np.where(np.isfinite(size), size, 0)
    assert_within(ours, theirs, bound, settled)


def assert_numbers(ours: Any, theirs: Any) -> None:
    """The same numbers, zeros of both signs being one number and all NaNs another."""
    if ours.dtype.kind in "biu" or not np.issubdtype(wide(ours).dtype, np.inexact):
        np.testing.assert_array_equal(ours, theirs)
        return
    assert_within(ours, theirs, 0.0)
