"""Results of two implementations, compared: a line for each array."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xla_contract.types.element_type import ElementType


def compared(ours: Sequence[Any], theirs: Sequence[Any], name: str) -> Iterator[tuple[str, bool]]:
    """Compare arrays one by one with reference arrays, which come from `name`.

    Yields for each array a line with the largest absolute difference, and for floats that relative
    to the reference; and True if both agree in type and sizes, and in the elements that are not
    finite.
    """
    if len(ours) != len(theirs):
        yield f"{len(ours)} results, {name} has {len(theirs)}", False
        return
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        text, fits = _difference(np.asarray(one), np.asarray(other))
        yield f"result {number} against {name}: {text}", fits


def _difference(one: Any, other: Any) -> tuple[str, bool]:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        ours, theirs = (f"{each.dtype}{list(each.shape)}" for each in (one, other))
        return f"{ours} is not {theirs}", False
    kind = ElementType.from_dtype(one.dtype)
    wide = np.complex128 if kind.is_complex else np.float64
    if kind.is_integer or kind is ElementType.PRED:
        differ = int(np.count_nonzero(one != other))
        largest = np.abs(one.astype(wide) - other.astype(wide)).max(initial=0)
        return f"largest difference {largest:g} ({differ} of {one.size} elements differ)", True
    one, other = one.astype(wide), other.astype(wide)
    finite = np.isfinite(one) & np.isfinite(other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    odd = int(np.count_nonzero(~finite & ~same))
    distance = np.abs(one[finite] - other[finite])
    size = np.abs(other[finite])
    relative = np.divide(distance, size, out=np.zeros_like(distance), where=size > 0)
    text = (
        f"largest difference {distance.max(initial=0):.3g}, relative {relative.max(initial=0):.3g}"
    )
    return text + (f"; {odd} elements are finite on one side only or NaN" if odd else ""), not odd
