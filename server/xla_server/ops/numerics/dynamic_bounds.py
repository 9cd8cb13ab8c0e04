"""Arrays with fewer elements than the bounds of their shape.

A value of dynamic shape is an array of its actual size. Elements between the size and the bounds
are padding. Only set-dimension-size may make padding visible again, so its results keep the whole
array. `sliced`, `padded` and `broadcast_to` also take the arrays of a program being written
(xla_server.passes.dynamic_sizes.sized_values).
"""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from xla_contract.types.shape import Shape
from xla_server.ops.evaluation import Array


class PaddedArray(np.ndarray[Any, Any]):
    """A view of the elements of `whole` that count; other views and results remember nothing."""

    whole: Array | None = None


def part_of(whole: Array, sizes: Sequence[int]) -> Array:
    """The first elements of `whole` in every dimension, which remember it if it has more."""
    if whole.shape == tuple(sizes):
        return whole
    part = sliced(whole, sizes).view(PaddedArray)
    part.whole = whole
    return part


def whole_of(array: Array) -> Array:
    """The larger array that this is a part of; itself where it is none."""
    if isinstance(array, PaddedArray) and array.whole is not None:
        return array.whole
    return plain(array)


def plain(array: Array) -> Array:
    """The array without its memory of a larger one."""
    return array.view(np.ndarray) if isinstance(array, PaddedArray) else array


def with_size(sizes: Sequence[int], dimension: int, size: int) -> tuple[int, ...]:
    """The sizes with another one in a dimension."""
    return (*sizes[:dimension], size, *sizes[dimension + 1 :])


def replaced_sizes(
    old: Sequence[int], new: Sequence[int], operand: Shape, update: Shape
) -> list[int]:
    """The sizes of an array with an update written into it.

    They are those of the array, or of an update that is to replace it whole.
    """
    return [
        size if update.is_dynamic(d) and update.dimensions[d] == operand.dimensions[d] else kept
        for d, (kept, size) in enumerate(zip(old, new, strict=True))
    ]


@singledispatch
def sliced(array: Any, sizes: Sequence[int]) -> Array:
    """The first elements in every dimension. A view."""
    # The ellipsis keeps an array of rank 0 an array.
    box: tuple[Any, ...] = (*map(slice, sizes), ...)
    result: Array = array[box]
    return result


@singledispatch
def padded(array: Any, sizes: Sequence[int]) -> Array:
    """The array with zeros behind its elements, up to these sizes; itself where it has them."""
    if array.shape == tuple(sizes):
        unchanged: Array = array
        return unchanged
    result = np.zeros(sizes, array.dtype)
    sliced(result, array.shape)[...] = array
    return result


@singledispatch
def broadcast_to(array: Any, sizes: Sequence[int]) -> Array:
    """The array with what has size 1 repeated up to these sizes. A view."""
    return np.broadcast_to(array, sizes)
