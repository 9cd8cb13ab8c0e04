"""Whichever library computes it, the checksum is zlib's."""

import sys
import zlib

from hypothesis import given
from hypothesis import strategies as st

from xla_contract.wire import checksum


@given(st.lists(st.binary(max_size=5000), max_size=5))
def test_the_checksum_of_parts_is_that_of_zlib(parts):
    value = 0
    for part in parts:
        value = checksum.crc32(memoryview(part), value)
    assert value == zlib.crc32(b"".join(parts))


def test_without_the_faster_library_it_is_zlib_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    assert checksum._fastest() is zlib.crc32
