import numpy as np
import pytest

from xla_contract.wire import varint
from xla_contract.wire.varint import are_varints, count_varints, encode_varint, read_varint


def encoded(data: bytes) -> varint.Bytes:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("block", [1, 3, 16, 1 << 16])
def test_varints_are_counted_by_their_ends(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varint, "_COUNTED", block)
    values = [0, 1, 127, 128, 300, 2**31, 2**64 - 1] * 5
    data = b"".join(map(encode_varint, values))
    assert count_varints(encoded(data)) == len(values)
    assert count_varints(encoded(data + b"\x80")) == len(values)
    assert count_varints(encoded(b"")) == 0
    assert are_varints(encoded(data))
    assert are_varints(encoded(b""))


@pytest.mark.parametrize("block", [1, 3, 16, 1 << 16])
@pytest.mark.parametrize("before", [b"", b"\x01", b"\x01" * 15, b"\x80\x01" * 8])
def test_none_may_be_longer_than_ten_bytes_or_lack_its_end(
    block: int, before: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(varint, "_COUNTED", block)
    assert are_varints(encoded(before + b"\xff" * 9 + b"\x01" + before))
    assert not are_varints(encoded(before + b"\xff" * 10 + b"\x01" + before))
    assert not are_varints(encoded(before + b"\xff"))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, 2**64 - 1])
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    data = b"\xff" + encode_varint(value)
    end = len(data)
    assert read_varint(data, 1, end) == read_varint(memoryview(data), 1, end, 10) == (value, end)
    for refused in (lambda: read_varint(data, 1, end - 1), lambda: read_varint(data, end, end)):
        with pytest.raises(IndexError):
            refused()
    if end > 2:
        with pytest.raises(IndexError):
            read_varint(data, 1, end, end - 2)


def test_a_padded_varint_is_read_unless_a_longest_one_is_stated() -> None:
    padded = b"\x85\x80\x00"
    assert read_varint(padded, 0, 3) == (5, 3)
    with pytest.raises(IndexError):
        read_varint(padded, 0, 3, 3)
    with pytest.raises(IndexError):
        read_varint(b"\x80" * 10 + b"\x01", 0, 11)
