"""Arrays as bytes in memory order, a part at a time.

The bytes are those of `Value.data` in xla_extension.proto: the elements in the order of the shape's
layout, padding included, little-endian. PRED and types under a byte take one byte an element,
complex numbers are real and imaginary part. Memory in use is that of one part, except for padded
layouts, which are laid out whole.
"""

import math
import sys

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array, Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.linear_memory import native_word
from xla_contract.wire.literals.value_proto import memory_of, require_memory_shape


class LinearReader:
    """The bytes of an array literal. One thread at a time.

    `size` is their number, that of the literal's shape. Raises InvalidArgumentError when the
    literal is no array.
    """

    def __init__(self, literal: Literal) -> None:
        shape = literal.shape
        element_type = shape.element_type
        layout = shape.layout_or_default
        self.size = shape.byte_size
        self._width = element_type.byte_width
        self._mask = _mask(element_type)
        array = literal.value.view(native_word(element_type)).transpose(layout.major_to_minor)
        is_as_sent = array.flags.c_contiguous and self._mask is None
        is_as_sent &= sys.byteorder == "little" or self._width == 1
        self._bytes: memoryview | None = None
        if layout.is_padded:
            self._bytes = memory_of(literal).data
        elif is_as_sent:
            self._bytes = _flat_bytes(array).data
        self._array = array.reshape(1) if array.ndim == 0 else array
        self._scratch = np.empty(0, native_word(element_type).newbyteorder("<"))

    def part(self, start: int, stop: int) -> memoryview:
        """Return the bytes from `start` to before `stop`, valid until the next call.

        It is a view of the array if the memory has the order of the wire.
        """
        if self._bytes is not None:
            return self._bytes[start:stop]
        first, head = divmod(start, self._width)
        last = -(-stop // self._width)
        count = max(0, last - first)
        if self._scratch.size < count:
            self._scratch = np.empty(count, self._scratch.dtype)
        elements = self._scratch[:count]
        _gather(self._array, first, last, elements)
        if self._mask is not None:
            np.bitwise_and(elements, self._mask, out=elements)
        return _flat_bytes(elements).data[head : head + stop - start]


class LinearWriter:
    """Assembles an array of `shape` from its bytes, in `memory`: uint8[shape.byte_size].

    Raises InvalidArgumentError unless the shape is an array that states its layout and bounds.
    """

    def __init__(self, shape: Shape, memory: Array) -> None:
        require_memory_shape(shape)
        self.shape = shape
        self._memory = memory
        self._mask = _mask(shape.element_type)
        self._is_pred = shape.element_type is ElementType.PRED

    def write(self, start: int, data: memoryview) -> None:
        """Write bytes at offset `start`; the caller has checked that they fit.

        Raises:
            InvalidArgumentError: A PRED byte is neither 0 nor 1; nothing is written then.
        """
        source = np.frombuffer(data, np.uint8)
        if self._is_pred and source.size and source.max() > 1:
            raise InvalidArgumentError(
                f"{self.shape}: an element of pred must be a byte of 0 or 1, got "
                f"{int(source.max())} at or after byte {start}"
            )
        target = self._memory[start : start + source.size]
        if self._mask is None:
            np.copyto(target, source)
        else:
            np.bitwise_and(source, self._mask, out=target)

    def literal(self, dynamic_sizes: tuple[int, ...] = ()) -> Literal:
        """Return the array, once all bytes are written; it shares the memory.

        Raises:
            InvalidArgumentError: A dynamic size does not fit the shape.
        """
        words = self._memory.view(native_word(self.shape.element_type).newbyteorder("<"))
        native = words.astype(words.dtype.newbyteorder("="), copy=False)
        flat = native.view(self.shape.element_type.dtype)
        return Literal.from_linear_memory(self.shape, flat, dynamic_sizes)


def _gather(array: Array, start: int, stop: int, out: Array) -> None:
    """Copy the elements `start` to `stop` of `array`, counted row by row, into flat `out`."""
    if start >= stop:
        return
    if array.ndim == 1:
        np.copyto(out, array[start:stop])
        return
    row = math.prod(array.shape[1:])
    first, head = divmod(start, row)
    last, tail = divmod(stop, row)
    if first == last:
        _gather(array[first], head, tail, out)
        return
    at = 0
    if head:
        at = row - head
        _gather(array[first], head, row, out[:at])
        first += 1
    whole = out[at : at + (last - first) * row]
    np.copyto(whole.reshape(last - first, *array.shape[1:]), array[first:last])
    if tail:
        _gather(array[last], 0, tail, out[at + whole.size :])


def _flat_bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _mask(element_type: ElementType) -> np.uint8 | None:
    """The bits that an element of a type under a byte has; None for other types."""
    width = element_type.bit_width
    return np.uint8((1 << width) - 1) if width < 8 else None
