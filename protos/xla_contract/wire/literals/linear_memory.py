"""Arrays as bytes in memory order, written and read in one copy.

The bytes are those of `Value.data` in xla_extension.proto: the elements in the order of the shape's
layout, padding included, little-endian. PRED and types under a byte take one byte an element,
complex numbers are real and imaginary part. The copies let other threads run.
"""

import math
import os
import sys
import threading
from typing import Any

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.index import memory_dimensions
from xla_contract.types.literal import Array, Literal, storage
from xla_contract.types.shape import Shape

SPLIT_BYTES = 8 << 20
"""Bytes from which two threads copy: one thread does not use the whole memory bandwidth."""


def write_linear_memory(literal: Literal, memory: Array) -> None:
    """Write an array into `memory`, uint8[shape.byte_size], in the layout of its shape.

    Raises InvalidArgumentError when the literal is no array or `memory` has another size.
    """
    shape = literal.shape
    _check_size(shape, memory)
    element_type = shape.element_type
    words = memory.view(_word(element_type))
    if shape.layout_or_default.is_padded:
        flat = storage(literal.linear_memory(), element_type).view(native_word(element_type))
        np.copyto(words, flat)
        return
    order = shape.layout_or_default.major_to_minor
    source = _as_words(literal.value, element_type).transpose(order)
    target = words.reshape(source.shape)
    if element_type.bit_width < 8:
        np.bitwise_and(source, _mask(element_type), out=target)
    else:
        _copy(target, source)


def read_linear_memory(
    shape: Shape,
    memory: Array,
    *,
    out: Array | None = None,
    dynamic_sizes: tuple[int, ...] = (),
) -> Literal:
    """Return the array in `memory`, uint8[shape.byte_size], with the layout of `shape`.

    The literal owns its copy. `memory` is copied before it is checked, since another process may
    write to it meanwhile.

    Args:
        shape: An array shape.
        memory: The bytes.
        out: Memory for the copy, of the shape's dimensions and type, which is written to here only.
        dynamic_sizes: Sizes of the dimensions, where some are dynamic.

    Raises:
        InvalidArgumentError: The shape is no array, `memory` has another size, a PRED byte is
            neither 0 nor 1, or a dynamic size does not fit.
    """
    _check_size(shape, memory)
    shape = shape.with_default_layout()
    element_type = shape.element_type
    if out is None:
        out = np.empty(shape.dimensions, element_type.dtype)
    order = shape.layout_or_default.major_to_minor
    widths = memory_dimensions(shape)
    physical = memory.view(_word(element_type)).reshape([widths[number] for number in order])
    logical: list[Any] = [slice(shape.dimensions[number]) for number in order]
    words = _as_words(out, element_type)
    # The ellipsis makes the answer an array, not a number, where there are no dimensions.
    _copy(words.transpose(order), physical[(*logical, ...)])
    return _checked(shape, out, dynamic_sizes)


def is_row_major(shape: Shape) -> bool:
    """Return whether an array's linear memory is that of a row-major array on this processor."""
    layout = shape.layout_or_default
    return layout.is_descending and not layout.is_padded and sys.byteorder == "little"


def literal_in_memory(shape: Shape, memory: Array) -> Literal:
    """Return the array whose memory is `memory`, uint8[shape.byte_size], without a copy.

    The caller keeps `memory` unchanged from here on.

    Raises:
        InvalidArgumentError: The shape is not row-major, `memory` has another size, or a PRED byte
            is neither 0 nor 1.
    """
    _check_size(shape, memory)
    if not is_row_major(shape):
        raise InvalidArgumentError(f"a layout must be row-major, without padding, got {shape}")
    out = memory.view(shape.element_type.dtype).reshape(shape.dimensions)
    return _checked(shape, out, ())


def _checked(shape: Shape, out: Array, dynamic_sizes: tuple[int, ...]) -> Literal:
    """Return the literal of `out`, after checking PRED and masking types under a byte.

    The caller has made sure that no other thread or process writes to `out`.

    Raises:
        InvalidArgumentError: A PRED byte is neither 0 nor 1, or a dynamic size does not fit.
    """
    element_type, words = shape.element_type, _as_words(out, shape.element_type)
    if element_type is ElementType.PRED and words.size and words.max() > 1:
        raise InvalidArgumentError(
            f"{shape}: an element of pred must be a byte of 0 or 1, got {int(words.max())}"
        )
    if element_type.bit_width < 8:
        np.bitwise_and(words, _mask(element_type), out=words)
    out = out.view()
    out.flags.writeable = False
    return Literal(shape, out, (), dynamic_sizes)


def _copy(target: Array, source: Array) -> None:
    """np.copyto for arrays of the same shape, a half by another thread where that is worth it."""
    if target.nbytes < SPLIT_BYTES or _processors() < 2:
        np.copyto(target, source)
        return
    axis = next(number for number, size in enumerate(target.shape) if size > 1)
    halves = [np.array_split(array, 2, axis) for array in (target, source)]
    (first_target, second_target), (first_source, second_source) = halves
    # A thread takes some 50 us to start, which is little against the copy, so no pool is kept.
    helper = threading.Thread(target=np.copyto, args=(first_target, first_source), daemon=True)
    try:
        helper.start()
    except RuntimeError:  # The system refuses a thread.
        np.copyto(target, source)
        return
    np.copyto(second_target, second_source)
    helper.join()


def _processors() -> int:
    """Return on how many processors this process may run, 1 where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _check_size(shape: Shape, memory: Array) -> None:
    if not shape.is_array:
        raise InvalidArgumentError(f"only an array has linear memory, got {shape}")
    size = math.prod(memory_dimensions(shape)) * shape.element_type.byte_width
    if memory.dtype != np.uint8 or memory.shape != (size,):
        raise InvalidArgumentError(
            f"linear memory must hold {size} bytes for {shape}, got {list(memory.shape)} of "
            f"{memory.dtype}"
        )


def _as_words(array: Array, element_type: ElementType) -> Array:
    """The array with its elements as numbers that numpy copies without looking at them."""
    return array.view(native_word(element_type))


def native_word(element_type: ElementType) -> "np.dtype[np.generic]":
    """Return the type of words that hold an element: unsigned, except for complex numbers."""
    dtype = element_type.dtype
    return dtype if element_type.is_complex else np.dtype(f"u{dtype.itemsize}")


def _word(element_type: ElementType) -> "np.dtype[np.generic]":
    return native_word(element_type).newbyteorder("<")


def _mask(element_type: ElementType) -> np.uint8:
    return np.uint8((1 << element_type.bit_width) - 1)
