"""Base-128 varints of protobuf's wire format, many at a time.

Source: the protobuf encoding specification.
"""

import numpy as np
import numpy.typing as npt

# Ten scratch bytes an element are needed; a chunk keeps them inside the cache.
_CHUNK = 1 << 14


def encode_varint(value: int) -> bytes:
    """One non-negative integer as a varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_varints(values: "npt.NDArray[np.unsignedinteger[npt.NBitBase]]") -> bytes:
    """The varints of a one-dimensional array of unsigned integers, one after another."""
    if not values.size or int(values.max()) <= 0x7F:
        return values.astype(np.uint8).tobytes()
    return b"".join(
        _encode_chunk(values[start : start + _CHUNK].astype(np.uint64))
        for start in range(0, values.size, _CHUNK)
    )


def _encode_chunk(values: "npt.NDArray[np.uint64]") -> bytes:
    groups = max(1, (int(values.max()).bit_length() + 6) // 7)
    septets = values[:, None] >> (np.arange(groups, dtype=np.uint64) * np.uint64(7))
    used = septets != 0
    used[:, 0] = True
    encoded = (septets & np.uint64(0x7F)).astype(np.uint8)
    encoded[:, :-1] |= used[:, 1:].view(np.uint8) << np.uint8(7)
    kept: npt.NDArray[np.uint8] = encoded[used]
    return kept.tobytes()
