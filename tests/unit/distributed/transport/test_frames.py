"""Messages between processes as bytes."""

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.literal import Literal
from xla_server.distributed.transport import frames
from xla_server.distributed.transport.frames import Incoming, packed


def received(message: object, max_bytes: int = 1 << 30) -> Any:
    first, *others = packed(message, max_bytes)
    incoming = Incoming(first, max_bytes)
    for into, frame in zip(incoming.missing, others, strict=True):
        into[...] = frame
    return incoming.message()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_])
def test_arrays_arrive_in_the_order_of_their_memory(dtype: Any) -> None:
    array = np.arange(12000).reshape(2, 3, 2000).astype(dtype)
    for each in (array, array.T, array[..., ::2], np.moveaxis(array, 2, 0)):
        got = received(each)
        assert got.dtype == each.dtype
        np.testing.assert_array_equal(got, each)
        assert np.argsort(got.strides).tolist() == np.argsort(each.strides).tolist()


def test_large_arrays_are_beside_the_record_and_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES", 3000)
    literal = Literal.from_numpy(np.arange(2000, dtype=np.float32))
    assert [frame.size for frame in packed(literal, 1 << 20)[1:]] == [3000, 3000, 2000]
    assert received(literal) == literal


def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(ResourceExhaustedError, match="at most 5000 bytes"):
        packed(np.zeros(5000, np.uint8), 5000)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"", "must have the sizes"),
        (struct.pack("<Q", 2**63), "must have the sizes"),
        (struct.pack("<QQ", 1, 2**40), "at most 1000 bytes"),
    ],
)
def test_a_frame_that_states_wrong_sizes_is_refused(head: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Incoming(np.frombuffer(head, np.uint8), 1000)
