"""The checksum of transfers: CRC-32 as in zlib, Ethernet and PNG.

zlib-ng computes the same with the processor's carry-less product, three to four times as fast.
The server installs it; a client that has it uses it too.
"""

import zlib
from collections.abc import Callable

Crc32 = Callable[[bytes | memoryview, int], int]


def _fastest() -> Crc32:
    try:
        from zlib_ng import zlib_ng
    except ImportError:
        return zlib.crc32
    function: Crc32 = zlib_ng.crc32
    return function


crc32: Crc32 = _fastest()
"""The checksum of `data` after data whose checksum is the second argument, 0 for none.

Other threads run meanwhile.
"""
