import numpy as np
import pytest

from xla_contract.wire import varint
from xla_contract.wire.varint import are_varints, count_varints, encode_varint


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
