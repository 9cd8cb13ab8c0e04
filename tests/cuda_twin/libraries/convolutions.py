"""Convolutions of libraries in numpy: a sum over the positions of the window."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xla_contract.types.element_type import ElementType
from xla_server.target.gpu.convolution import Convolution, Direction


def convolve(form: Convolution, numbers: tuple[Any, Any, Any]) -> None:
    """Compute one of the arrays x, w and y, which are given with dimensions in that order."""
    x, w, y = numbers
    sums = np.float64 if form.element is ElementType.F64 else np.float32
    groups = form.groups
    pads = [(0, 0), (0, 0), *zip(form.low, form.high, strict=True)]
    padded = np.pad(x.astype(sums), pads)
    if form.direction is Direction.DATA_GRADIENT:
        padded[:] = 0
    # x as [n, g, c, ...], w as [g, k, c, r], y as [n, g, k, p].
    images = padded.reshape(form.batch, groups, -1, *padded.shape[2:])
    filters = w.astype(sums).reshape(groups, -1, *w.shape[1:])
    results = y.astype(sums).reshape(form.batch, groups, -1, *form.positions)
    made = {Direction.FORWARD: results, Direction.FILTER_GRADIENT: filters}.get(form.direction)
    if made is not None:
        made[:] = 0
    for at, where in _windows(form):
        image, taps = images[(..., *where)], filters[(..., *at)]
        match form.direction:
            case Direction.FORWARD:
                results += np.einsum("ngc...,gkc->ngk...", image, taps)
            case Direction.DATA_GRADIENT:
                image += np.einsum("ngk...,gkc->ngc...", results, taps)
            case Direction.FILTER_GRADIENT:
                taps += np.einsum("ngcp,ngkp->gkc", _lines(image), _lines(results))
    match form.direction:
        case Direction.FORWARD:
            y[:] = results.reshape(y.shape)
        case Direction.DATA_GRADIENT:
            inside = (
                slice(low, low + size) for low, size in zip(form.low, form.image, strict=True)
            )
            x[:] = padded[(..., *inside)]
        case Direction.FILTER_GRADIENT:
            w[:] = filters.reshape(w.shape)


def _lines(array: Any) -> Any:
    return array.reshape(*array.shape[:3], -1)


def _windows(form: Convolution) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yield each position in the window with what meets it in the padded image."""
    for at in itertools.product(*map(range, form.window)):
        first = [number * step for number, step in zip(at, form.dilations, strict=True)]
        yield (
            at,
            tuple(
                slice(begin, begin + (count - 1) * stride + 1, stride)
                for begin, count, stride in zip(first, form.positions, form.strides, strict=True)
            ),
        )


def views(form: Convolution, memory: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Return the arrays x, w and y in memory, each a flat array."""
    x, w, y = (
        as_strided(flat, sizes, [step * flat.itemsize for step in form.distances(sizes)])
        for flat, sizes in zip(memory, form.sizes, strict=True)
    )
    return x, w, y
