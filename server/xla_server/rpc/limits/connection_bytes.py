"""Bytes received on each connection, as the system counts them.

grpc reports nothing of a message before it is complete. The system counts the bytes that a TCP
connection has received since it began, read or not.
"""

import os
import socket
import struct
from typing import NamedTuple

from xla_server.rpc.peers.addresses import address

_DESCRIPTORS = "/proc/self/fd"
_COUNT = struct.Struct("=Q")
_COUNT_OFFSET = 128
"""Offset of tcpi_bytes_received in tcp_info (linux/tcp.h), whose layout is stable."""
_INFO_BYTES = 256
"""Bytes of tcp_info that are requested; the system gives as many as it has."""


class Received(NamedTuple):
    """Bytes that a connection has received since it began."""

    connection: int
    """Tells it from another one of the same address: the number of its socket."""
    byte_count: int
    """Bytes that were read or wait in the socket."""

    def since(self, before: "Received | None") -> int:
        """Bytes received since it was `before`; all, where that is nothing or another one."""
        if before is None or before.connection != self.connection:
            return self.byte_count
        return self.byte_count - before.byte_count


def received_bytes() -> dict[str, Received]:
    """Addresses of peers, as `peers.tcp_address` has them -> what was received from them.

    Connections that are not of TCP, and systems that do not count, are not in it.
    """
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:  # Not Linux.
        return {}
    return dict(filter(None, (_counted(int(name)) for name in names)))


def _counted(descriptor: int) -> tuple[str, Received] | None:
    """The peer of a socket and what came from it; None for what is no connection of TCP.

    The descriptor is grpc's, which may close it at any time. A copy of it would keep what it names
    alive behind grpc's back, in its epoll above all.
    """
    try:
        # Asks what it is, and fails for what is none.
        borrowed = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if borrowed.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        info = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        host, port = borrowed.getpeername()[:2]
        number = os.fstat(descriptor).st_ino
    except OSError:
        return None
    finally:
        borrowed.detach()
    if len(info) < _COUNT_OFFSET + _COUNT.size:
        return None
    (count,) = _COUNT.unpack_from(info, _COUNT_OFFSET)
    # A client of grpc has sent some bytes at least, so this system does not count.
    return (address(host, port), Received(number, count)) if count else None
