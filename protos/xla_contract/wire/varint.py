"""Base-128 varints of protobuf's wire format, many at a time.

Source: the protobuf encoding specification.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.unsignedinteger[npt.NBitBase]]
Bytes = npt.NDArray[np.uint8]

BLOCK = 1 << 14
"""Integers that are encoded at a time: up to 50 scratch bytes for each stay inside the cache."""

_COUNTED = 1 << 16
"""Bytes that are processed at a time, so that intermediate arrays stay inside the cache."""

VARINT, LENGTH_DELIMITED = 0, 2
"""Wire types, the low three bits of a field's tag."""

MAX_BYTES = 10
"""The bytes of the longest varint, that of 64 bits."""


def encode_varint(value: int) -> bytes:
    """One non-negative integer as a varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(
    data: bytes | memoryview, at: int, end: int, longest: int | None = None
) -> tuple[int, int]:
    """Return the varint at position `at` of `data`, and the position after it.

    The varint must end before `end`. With `longest`, it must also have at most that many bytes, and
    no more than its value needs.

    Raises:
        IndexError: There is no such varint.
    """
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    result = 0
    for number in range(at, min(at + (longest or MAX_BYTES), end)):
        byte = data[number]
        result |= (byte & 0x7F) << 7 * (number - at)
        if byte < 0x80:
            if longest and not byte:
                break
            return result, number + 1
    raise IndexError


def encode_varints(values: Integers) -> bytes:
    """Return the varints of a one-dimensional array of unsigned integers, one after another.

    Scratch memory does not grow with the array.
    """
    starts = range(0, values.size, BLOCK)
    return b"".join([_encode(values[start : start + BLOCK]) for start in starts])


def count_varints(encoded: Bytes) -> int:
    """Return the number of varints that end in an array of u8.

    Scratch memory does not grow with the array.
    """
    signed = encoded.view(np.int8)
    starts = range(0, signed.size, _COUNTED)
    return sum(int(np.count_nonzero(signed[at : at + _COUNTED] >= 0)) for at in starts)


def are_varints(encoded: Bytes) -> bool:
    """Return whether a u8 array is a sequence of varints, none longer than MAX_BYTES."""
    if not encoded.size:
        return True
    if encoded[-1] > 0x7F:
        return False
    for at in range(0, encoded.size, _COUNTED):
        goes_on = encoded[at : at + _COUNTED + MAX_BYTES - 1] > 0x7F
        # Runs of twice as many bytes each time, ten in the end.
        two = goes_on[:-1] & goes_on[1:]
        four = two[:-2] & two[2:]
        eight = four[:-4] & four[4:]
        if (eight[:-2] & two[8:]).any():
            return False
    return True


def _encode(values: Integers) -> bytes:
    least, most = _width(int(values.min())), _width(int(values.max()))
    if most == 1:
        return values.astype(np.uint8).tobytes()
    # A word for four bytes, for eight, or two words: whatever the longest takes.
    dtype = np.dtype("<u4" if most <= 4 else "<u8")
    words = np.empty((values.size, 1 if most <= 8 else 2), dtype)
    for number in range(words.shape[1]):
        shifted = values.astype(dtype, copy=False) >> dtype.type(56 * number)
        words[:, number] = _in_septets(shifted)
    if least == most:
        words |= _words(_CONTINUED, words)[most]
        return words.view(np.uint8)[:, :most].tobytes()
    widths = np.full(values.size, least, np.uint8)
    for width in range(least, most):
        widths += values >= values.dtype.type(1 << 7 * width)
    used = np.empty_like(words)
    for number in range(words.shape[1]):
        words[:, number] |= _words(_CONTINUED, words)[:, number].take(widths)
        used[:, number] = _words(_USED, words)[:, number].take(widths)
    encoded = np.compress(used.view(np.bool_).reshape(-1), words.view(np.uint8).reshape(-1))
    return encoded.tobytes()


def _in_septets(values: Integers) -> Integers:
    """Each integer's lowest 28 bits (of 4 bytes) or 56 (of 8), seven to a byte, lowest first."""
    # Halves of what is left move apart until each byte has seven bits.
    for low, high, step in _SPREADING[values.itemsize]:
        moved = values & high
        moved <<= step
        values = values & low
        values |= moved
    return values


_SPREADING: dict[int, tuple[tuple[Any, Any, Any], ...]] = {
    4: (
        (np.uint32(0x00003FFF), np.uint32(0x0FFFC000), np.uint32(2)),
        (np.uint32(0x007F007F), np.uint32(0x3F803F80), np.uint32(1)),
    ),
    8: (
        (np.uint64(0x000000000FFFFFFF), np.uint64(0x00FFFFFFF0000000), np.uint64(4)),
        (np.uint64(0x00003FFF00003FFF), np.uint64(0x0FFFC0000FFFC000), np.uint64(2)),
        (np.uint64(0x007F007F007F007F), np.uint64(0x3F803F803F803F80), np.uint64(1)),
    ),
}


def _width(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def _table(byte: int, left_out: int) -> bytes:
    """Return for each width 16 bytes, of which the first (width - `left_out`) are `byte`."""
    rows = (bytes([byte] * max(0, width - left_out)) for width in range(MAX_BYTES + 1))
    return b"".join(row.ljust(16, b"\0") for row in rows)


_CONTINUED = _table(0x80, 1)
_USED = _table(1, 0)


def _words(table: bytes, like: Integers) -> Integers:
    return np.frombuffer(table, like.dtype).reshape(MAX_BYTES + 1, -1)[:, : like.shape[1]]
