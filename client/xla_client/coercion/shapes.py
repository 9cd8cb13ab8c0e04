"""Shapes and element types as callers write them."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import MAX_NESTING


class _Shaped(Protocol):
    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...


ShapeLike: TypeAlias = Shape | str | Sequence[Any] | _Shaped
"""The types that `as_shape` takes."""


def as_shape(value: ShapeLike, parameter: str = "shape", depth: int = 0) -> Shape:
    """Return the shape that `value` means.

    Args:
        value: A Shape, HLO text ("f32[2,3]", "(f32[2], s32[])"), a sequence of these for a tuple,
            or anything with numpy's `shape` and `dtype`: an array, a jax.ShapeDtypeStruct.
        parameter: The name of the caller's parameter, for errors.
        depth: Number of tuples around this one; at most 64 nest.

    Raises:
        ArgumentTypeError: `value` is nothing of these.
        InvalidArgumentError: The text is no shape, or numpy's type none of XLA's.
    """
    if isinstance(value, Shape):
        return value
    if isinstance(value, str):
        try:
            return Shape.parse(value)
        except InvalidArgumentError as error:
            message = f"{parameter} must be a shape as 'f32[2,3]', got {value!r:.80}"
            raise InvalidArgumentError(f"{message}: {error.message}", hint=_advice(value)) from None
    if isinstance(value, tuple | list):
        if value and all(isinstance(part, int) for part in value):
            raise ArgumentTypeError(
                f"{parameter} must say its element type too, got {value!r:.80}; "
                f"Shape.array('f32', {value!r:.80}) is one"
            )
        if depth > MAX_NESTING:
            raise InvalidArgumentError(f"{parameter} may nest {MAX_NESTING} tuples, got more")
        return Shape.tuple_of([as_shape(part, parameter, depth + 1) for part in value])
    sizes, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(sizes, tuple) and dtype is not None and not isinstance(value, type):
        return Shape.array(ElementType.from_dtype(np.dtype(dtype)), sizes)
    also = f"; its shape is {parameter}=value.shape" if isinstance(sizes, Shape) else ""
    raise ArgumentTypeError(
        f"{parameter} must be a Shape or text as 'f32[2,3]', got {value!r:.80} "
        f"({type(value).__name__}){also}"
    )


def _advice(text: str) -> str:
    """Return HLO's name of the type at the start of a text, if that is numpy's name."""
    name = text.partition("[")[0]
    try:
        known = ElementType.of(name).text
    except InvalidArgumentError:
        return ""
    return "" if known == name else f"HLO's name of {name} is {known}"


def as_element_type(value: ElementTypeLike, parameter: str = "element_type") -> ElementType:
    """Return the element type that `value` names: see `ElementType.of`.

    Raises:
        ArgumentTypeError: `value` names no type at all.
        InvalidArgumentError: XLA has no such type.
    """
    if isinstance(value, ElementType):
        return value
    try:
        return ElementType.of(value)
    except InvalidArgumentError as error:
        raise type(error)(f"{parameter}: {error.message}") from None


def optional_type(value: ElementTypeLike | None) -> ElementType | None:
    """Return `as_element_type` of a value, None of None."""
    return None if value is None else as_element_type(value)


def optional_shape(value: ShapeLike | None) -> Shape | None:
    """Return `as_shape` of a value, None of None."""
    return None if value is None else as_shape(value)
