"""Messages as bytes: a pickled record, and its large arrays as separate frames, without a copy."""

import io
import pickle
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from xla_contract.errors import ResourceExhaustedError
from xla_host.aligned import aligned_empty
from xla_server.ops.evaluation import Array

FRAME_BYTES = 1 << 30
"""Limit of the bytes of one transfer: MPI's counts have 31 bits."""

_RECORD_BYTES = 1 << 26
"""Limit of the bytes of a pickled record, without its arrays."""

_INLINE_BYTES = 1 << 10
"""Limit of the bytes of an array that is pickled with the record; larger ones are separate
frames."""

_SIZE = struct.Struct("<Q")

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Reduce arrays of any element type to their bytes, in the order of their memory."""
        if type(value) is not np.ndarray or value.nbytes <= _INLINE_BYTES or value.dtype.hasobject:
            return NotImplemented
        order = tuple(np.argsort([-stride for stride in value.strides], kind="stable").tolist())
        dense = np.ascontiguousarray(value.transpose(order))
        data = pickle.PickleBuffer(bytes_of(dense).data)
        return _array, (data, value.dtype, dense.shape, order)


def _array(data: Any, dtype: Any, sizes: tuple[int, ...], order: tuple[int, ...]) -> Array:
    dense: Array = np.frombuffer(data, np.uint8).view(dtype).reshape(sizes)
    return dense.transpose(tuple(np.argsort(order)))


def bytes_of(dense: Array) -> Bytes:
    """Return a view of the bytes of a contiguous array."""
    return dense.reshape(-1).view(np.uint8)


def packed(message: object, max_bytes: int) -> list[Bytes]:
    """Return the frames of a message: the first has the sizes of the arrays and the record.

    Raises ResourceExhaustedError for more than `max_bytes` in all.
    """
    buffers: list[pickle.PickleBuffer] = []
    out = io.BytesIO()
    _Pickler(out, 5, buffer_callback=buffers.append).dump(message)
    arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
    head = b"".join(map(_SIZE.pack, (len(arrays), *(array.size for array in arrays))))
    first = np.frombuffer(head + out.getbuffer(), np.uint8)
    size = first.size + sum(array.size for array in arrays)
    if size > max_bytes or first.size > _RECORD_BYTES:
        raise ResourceExhaustedError(
            f"what one process sends another at a time must have at most {max_bytes} bytes, "
            f"{_RECORD_BYTES} beside its arrays, got {size}, {first.size} beside its arrays"
        )
    return [first, *(piece for array in arrays for piece in pieces(array))]


def pieces(array: Bytes) -> Sequence[Bytes]:
    """Split an array into the frames by which it is transferred."""
    return [array[at : at + FRAME_BYTES] for at in range(0, array.size, FRAME_BYTES)]


class Incoming:
    """A message whose first frame has arrived.

    `missing` is the memory into which the other frames are to be received. Raises ValueError for
    sizes that are not those of a message of at most `max_bytes`.
    """

    def __init__(self, first: Bytes, max_bytes: int) -> None:
        data = first.data
        count = _SIZE.unpack_from(data)[0] if first.size >= _SIZE.size else first.size
        start = _SIZE.size * (count + 1)
        if start > first.size:
            raise ValueError(f"a message must have the sizes of its frames, got {first.size} bytes")
        sizes = [_SIZE.unpack_from(data, _SIZE.size * (n + 1))[0] for n in range(count)]
        if first.size + sum(sizes) > max_bytes:
            raise ValueError(
                f"a message must have at most {max_bytes} bytes, got {first.size + sum(sizes)}"
            )
        self._record = data[start:]
        self._arrays = [aligned_empty((size,), np.dtype(np.uint8)) for size in sizes]
        self.missing = [piece for array in self._arrays for piece in pieces(array)]

    def message(self) -> Any:
        """Return the record; all frames must have been received."""
        return pickle.loads(self._record, buffers=self._arrays)
