"""Arguments of array shapes: dimensions, and an element type in the wrong position."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError
from xla_contract.types.element_type import ElementType


def sizes_of(dimensions: int | Sequence[int]) -> tuple[int, ...]:
    """Return the sizes as a tuple of ints.

    Raises:
        ArgumentTypeError: The sizes are neither an int nor a sequence of ints.
    """
    try:
        if isinstance(dimensions, Iterable):
            return tuple(map(operator.index, dimensions))
        return (operator.index(dimensions),)
    except TypeError:
        raise ArgumentTypeError(
            f"dimensions must be an int or a sequence of ints, got {dimensions!r:.80}"
        ) from None


def raise_swapped(element_type: Any, dimensions: Any) -> NoReturn:
    """Raise the error of an element type and dimensions in the wrong order.

    Raises:
        ArgumentTypeError: Always; the message has the call in the right order.
    """
    try:
        instead = (
            f', as in Shape.array("{ElementType.of(dimensions).text}", {sizes_of(element_type)})'
        )
    except InvalidArgumentError:
        instead = ', as in Shape.array("f32", (3, 4)) or Shape.parse("f32[3,4]")'
    raise ArgumentTypeError(
        f"the element type stands before the dimensions{instead}, got "
        f"{element_type!r:.80} for the element type"
    )
