"""Index arithmetic: logical dimensions and indices, and their positions in linear memory.

Semantics: XLA's "Shapes and layout", its index_util and layout_util. Linear positions count
elements of the memory of an array, padding included; a shape without a layout has the default
one. Everything here is exact (Python integers) and raises InvalidArgumentError or ShapeError
rather than wrapping around.
"""

import math
from collections.abc import Iterator, Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.shape import Shape


def dimension_numbers(shape: Shape, numbers: Sequence[int]) -> tuple[int, ...]:
    """Return `numbers` with negative ones counted from the end.

    Raises:
        ShapeError: A number is out of range, or two name the same dimension.
    """
    normal = tuple(shape.dimension_number(number) for number in numbers)
    if len(set(normal)) != len(normal):
        listed = ",".join(map(str, numbers))
        raise ShapeError(f"dimension numbers must be distinct, got {{{listed}}} of {shape}")
    return normal


def memory_dimensions(shape: Shape) -> tuple[int, ...]:
    """The widths in memory of an array, one per logical dimension, padding included."""
    _require_array(shape)
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


def logical_to_physical(shape: Shape) -> tuple[int, ...]:
    """Return for each logical dimension its position, counted from the most major one."""
    _require_array(shape)
    order = shape.layout_or_default.major_to_minor
    return tuple(order.index(number) for number in range(shape.rank))


def in_bounds(shape: Shape, multi_index: Sequence[int]) -> bool:
    """Return whether an array has an element at this index."""
    _require_array(shape)
    return len(multi_index) == shape.rank and all(
        0 <= at < size for at, size in zip(multi_index, shape.dimensions, strict=True)
    )


def _require_element(shape: Shape, multi_index: Sequence[int]) -> None:
    if not in_bounds(shape, multi_index):
        raise InvalidArgumentError(
            f"an index must name an element, got [{_listed(multi_index)}] of {shape}"
        )


def linear_index(shape: Shape, multi_index: Sequence[int]) -> int:
    """Return the position in memory, in elements, of the element at `multi_index`.

    Raises:
        InvalidArgumentError: The array has no such element.
    """
    _require_element(shape, multi_index)
    return sum(at * step for at, step in zip(multi_index, strides(shape), strict=True))


def multi_index(shape: Shape, linear: int) -> tuple[int, ...]:
    """Return the index of the element at a position in memory, the inverse of `linear_index`.

    Raises:
        InvalidArgumentError: The position is outside the memory or in its padding.
    """
    index = _memory_index(shape, linear)
    if not in_bounds(shape, index):
        raise InvalidArgumentError(
            f"a position must hold an element, got {linear} in the padding of {shape}"
        )
    return index


def is_padding(shape: Shape, linear: int) -> bool:
    """Return whether a position in memory is padding; InvalidArgumentError outside the memory."""
    return not in_bounds(shape, _memory_index(shape, linear))


def bump(shape: Shape, multi_index: Sequence[int]) -> tuple[int, ...] | None:
    """Return the next index in row-major order of the logical dimensions, None after the last.

    Raises:
        InvalidArgumentError: The array has no element at `multi_index`.
    """
    _require_element(shape, multi_index)
    index = list(multi_index)
    for number in range(shape.rank - 1, -1, -1):
        index[number] += 1
        if index[number] < shape.dimensions[number]:
            return tuple(index)
        index[number] = 0
    return None


def indices(shape: Shape) -> Iterator[tuple[int, ...]]:
    """All indices of an array in row-major order of the logical dimensions."""
    _require_array(shape)
    return _walk(shape.dimensions, range(shape.rank))


def indices_in_memory_order(shape: Shape) -> Iterator[tuple[int, ...]]:
    """Return all indices of an array in the order of its elements in memory, without padding."""
    _require_array(shape)
    return _walk(shape.dimensions, shape.layout_or_default.major_to_minor)


def subshape(shape: Shape, path: Sequence[int]) -> Shape:
    """Return the shape inside nested tuples at `path`; the empty path is the shape itself.

    Raises:
        InvalidArgumentError: The path leaves the shape.
    """
    part = shape
    for depth, number in enumerate(path):
        if not part.is_tuple or not 0 <= number < len(part.tuple_shapes):
            raise InvalidArgumentError(
                f"a path must stay inside the tuple, got element {number} at depth {depth} of "
                f"{{{_listed(path)}}} in {shape}"
            )
        part = part.tuple_shapes[number]
    return part


def _require_array(shape: Shape) -> None:
    if not shape.is_array:
        raise InvalidArgumentError(f"only an array has indices, got {shape}")


def _memory_index(shape: Shape, linear: int) -> tuple[int, ...]:
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
    return tuple(index)


def _walk(sizes: Sequence[int], major_to_minor: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if 0 in sizes:
        return
    index = [0] * len(sizes)
    while True:
        yield tuple(index)
        for number in reversed(major_to_minor):
            index[number] += 1
            if index[number] < sizes[number]:
                break
            index[number] = 0
        else:
            return


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
