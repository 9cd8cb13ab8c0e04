"""Index arithmetic: logical dimensions and indices, and their positions in linear memory.

Semantics: XLA's "Shapes and layout", its index_util and layout_util. Linear positions count
elements of the memory of an array, padding included; a shape without a layout has the default
one. Everything here is exact (Python integers) and raises InvalidArgumentError rather than wrapping
around.
"""

import math
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import Shape


def memory_dimensions(shape: Shape) -> tuple[int, ...]:
    """The widths in memory of an array, one per logical dimension, padding included."""
    if not shape.is_array:
        raise InvalidArgumentError(f"only an array has indices, got {shape}")
    layout = shape.layout_or_default
    return layout.padded_dimensions if layout.is_padded else shape.dimensions


def memory_element_count(shape: Shape) -> int:
    """The number of elements in the memory of an array, padding included."""
    return math.prod(memory_dimensions(shape))


def strides(shape: Shape) -> tuple[int, ...]:
    """Return the stride of each logical dimension in memory, in elements."""
    widths = memory_dimensions(shape)
    result = [0] * shape.rank
    step = 1
    for number in shape.layout_or_default.minor_to_major:
        result[number] = step
        step *= widths[number]
    return tuple(result)


def linear_index(shape: Shape, multi_index: Sequence[int]) -> int:
    """Return the position in memory, in elements, of the element at `multi_index`.

    Raises:
        InvalidArgumentError: The array has no such element.
    """
    steps = strides(shape)
    if not _has_element(shape, multi_index):
        listed = ",".join(map(str, multi_index))
        raise InvalidArgumentError(f"an index must name an element, got [{listed}] of {shape}")
    return sum(at * step for at, step in zip(multi_index, steps, strict=True))


def multi_index(shape: Shape, linear: int) -> tuple[int, ...]:
    """Return the index of the element at a position in memory, the inverse of `linear_index`.

    Raises:
        InvalidArgumentError: The position is outside the memory or in its padding.
    """
    widths = memory_dimensions(shape)
    count = math.prod(widths)
    if not 0 <= linear < count:
        raise InvalidArgumentError(
            f"a position must be inside the memory, got {linear} of {count} elements of {shape}"
        )
    index = [0] * shape.rank
    rest = linear
    for number in shape.layout_or_default.minor_to_major:
        rest, index[number] = divmod(rest, widths[number])
    if not _has_element(shape, index):
        raise InvalidArgumentError(
            f"a position must hold an element, got {linear} in the padding of {shape}"
        )
    return tuple(index)


def _has_element(shape: Shape, multi_index: Sequence[int]) -> bool:
    return len(multi_index) == shape.rank and all(
        0 <= at < size for at, size in zip(multi_index, shape.dimensions, strict=True)
    )
