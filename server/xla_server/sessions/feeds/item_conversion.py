"""Conversion between literals and the items of feed queues."""

from collections.abc import Iterable, Sequence

import numpy as np

from xla_contract.errors import InvalidArgumentError, UnimplementedError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.ops.evaluation import Array, Value
from xla_server.sessions.feeds.queue_entries import Item, joined

MAX_ITEM_BYTES = 2**31 - 1
"""The largest array of an infeed, as in the reference."""


def arrays_of(shape: Shape, queue: str) -> tuple[Shape, ...]:
    """The arrays of a value that a queue takes: itself, or a tuple's elements.

    Raises UnimplementedError for a tuple of tuples and InvalidArgumentError for what has no array.
    """
    parts = shape.tuple_shapes if shape.is_tuple else (shape,)
    if any(part.is_tuple for part in parts):
        raise UnimplementedError(f"{queue} takes tuples without tuples inside, got {shape}")
    for part in parts:
        if not part.is_array:
            raise InvalidArgumentError(f"{queue} takes arrays and tuples of arrays, got {shape}")
    return parts


def fit(shapes: Sequence[Shape], arrays: Sequence[Shape]) -> bool:
    """Return whether an item has the arrays that a stream declares, in number and shape."""
    return len(shapes) == len(arrays) and all(map(Shape.fits, shapes, arrays))


def infeed_arrays(shape: Shape) -> tuple[Shape, ...]:
    """The arrays, without layout, of a value that a client may put into infeed.

    Raises InvalidArgumentError for an array of no bytes or of 2**31 and more and for an empty
    tuple, and as `arrays_of`.
    """
    arrays = arrays_of(shape, "infeed")
    if not arrays:
        raise InvalidArgumentError("infeed takes at least one array, got an empty tuple")
    for array in arrays:
        if not 0 < array.byte_size <= MAX_ITEM_BYTES:
            raise InvalidArgumentError(
                f"an array of infeed must take between 1 and {MAX_ITEM_BYTES} bytes, got "
                f"{array.byte_size} for {array}"
            )
    return tuple(array.without_layout() for array in arrays)


def outfeed_arrays(shape: Shape) -> tuple[Shape, ...]:
    """The arrays of a value that a client requests from outfeed, each with its layout.

    Raises InvalidArgumentError for an empty tuple, and as `arrays_of`.
    """
    arrays = arrays_of(shape.with_default_layout(), "outfeed")
    if not arrays:
        raise InvalidArgumentError("outfeed gives at least one array, got an empty tuple")
    return arrays


def items_of_literal(
    literal: Literal, arrays: Sequence[Shape], sequence: int = 0
) -> tuple[Item, ...]:
    """The items of a literal; the last of them carries the literal's `sequence` number."""
    is_tuple = literal.shape.is_tuple
    parts = literal.elements if is_tuple else (literal,)
    return _items(arrays, map(_actual, parts), is_tuple, sequence)


def items_of_value(value: Value, shape: Shape) -> tuple[Item, ...]:
    """The items of a program's outfeed value; raises as `arrays_of`."""
    arrays = [array.without_layout() for array in arrays_of(shape, "outfeed")]
    values = value if isinstance(value, tuple) else (value,)
    return _items(arrays, map(_own_array, values), shape.is_tuple)


def _items(
    arrays: Sequence[Shape], values: Iterable[Array], in_tuple: bool, sequence: int = 0
) -> tuple[Item, ...]:
    """The items of one value; the last of them carries the value's `sequence` number."""
    last = len(arrays) - 1
    return tuple(
        Item(array, value, in_tuple, number == last, sequence if number == last else 0)
        for number, (array, value) in enumerate(zip(arrays, values, strict=True))
    )


def literal_of(items: Sequence[Item], shape: Shape | None = None) -> Literal:
    """The literal of items, laid out as `shape` says, or else as its own value, row by row.

    Shares their memory.
    """
    if shape is None:
        shape = joined([item.shape for item in items], items[0].in_tuple)
    shape = shape.with_default_layout()
    arrays = shape.tuple_shapes if shape.is_tuple else (shape,)
    literals = [
        Literal.from_numpy(item.value, array, copy=False)
        for item, array in zip(items, arrays, strict=True)
    ]
    return Literal.tuple_of(literals) if shape.is_tuple else literals[0]


def _actual(literal: Literal) -> Array:
    """The elements within the dynamic sizes, copied if the array has more."""
    actual = literal.actual
    return actual if actual.nbytes == literal.value.nbytes else actual.copy()


def _own_array(value: Value) -> Array:
    """The array, copied when it is a view: a queued item must not hold a larger one alive."""
    array: Array = np.asarray(value)
    return array if array.base is None else array.copy()
