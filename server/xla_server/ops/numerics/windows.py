"""Elements of a base under a sliding window, as slices.

An element of the window has a regular slice of output positions at which it covers an element of
the base, not padding or a gap of the dilated base. The elements that it reads are a regular slice,
too. Loops are over window elements only; positions are vectorised.
"""

import itertools
import math
from collections.abc import Iterator

from xla_contract.types.dimension_numbers import Window, WindowDimension

Slices = tuple[slice, ...]


def reads(
    window: Window, base: tuple[int, ...], outputs: tuple[int, ...]
) -> Iterator[tuple[Slices, Slices]]:
    """Pairs (output slices, base slices), one for each element of the window, in row-major order.

    Window elements that never lie on the base are left out.
    """
    per_dimension = [
        list(dimension_reads(dimension, size, count))
        for dimension, size, count in zip(window.dimensions, base, outputs, strict=True)
    ]
    for parts in itertools.product(*per_dimension):
        yield tuple(part[0] for part in parts), tuple(part[1] for part in parts)


def dimension_reads(
    dimension: WindowDimension, base: int, outputs: int
) -> Iterator[tuple[slice, slice]]:
    """Yield the slices of outputs and of the base, for each window element of one dimension."""
    if not base or not outputs:
        return
    reach = (base - 1) * dimension.base_dilation
    span = (outputs - 1) * dimension.stride
    step = dimension.window_dilation
    first = max(0, -((span - dimension.padding_low) // step))
    last = min(dimension.size - 1, (reach + dimension.padding_low) // step)
    for element in range(first, last + 1):
        found = _element_reads(dimension, element * step - dimension.padding_low, reach, outputs)
        if found is not None:
            yield found


def _element_reads(
    dimension: WindowDimension, offset: int, reach: int, outputs: int
) -> tuple[slice, slice] | None:
    """The slices for a window element that output o reads at o * stride + offset."""
    stride, dilation = dimension.stride, dimension.base_dilation
    common = math.gcd(stride, dilation)
    if offset % common:
        return None
    # Positions that fall on an element and not in a gap repeat with this period.
    period = dilation // common
    phase = -offset // common * pow(stride // common, -1, period) % period if period > 1 else 0
    first = max(0, -(offset // stride))
    first += (phase - first) % period
    last = min(outputs - 1, (reach - offset) // stride)
    if last < first:
        return None
    count = (last - first) // period + 1
    start = (offset + first * stride) // dilation
    stop_output = first + (count - 1) * period + 1
    base_step = period * stride // dilation
    return (
        slice(first, stop_output, period),
        slice(start, start + (count - 1) * base_step + 1, base_step),
    )
