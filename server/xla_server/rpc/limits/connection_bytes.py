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
    """The inode of its socket, which distinguishes connections of the same address."""
    byte_count: int
    """Bytes received: read, or waiting in the socket."""

    def since(self, before: "Received | None") -> int:
        """Bytes received since `before`; all of them if `before` is None or another connection."""
        if before is None or before.connection != self.connection:
            return self.byte_count
        return self.byte_count - before.byte_count


def received_bytes() -> dict[str, Received]:
    """Return the map from addresses of peers, as from `peers.tcp_address`, to received bytes.

    Connections other than TCP are left out; on systems that do not count it is empty.
    """
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:  # Not Linux.
        return {}
    return dict(filter(None, (_counted(int(name)) for name in names)))


def _counted(descriptor: int) -> tuple[str, Received] | None:
    """The peer of a socket and the bytes received from it; None if it is no TCP connection.

    The descriptor is grpc's, which may close it at any time. A duplicate would keep the socket
    alive after that, also in grpc's epoll.
    """
    try:
        # Detects the type of the descriptor; fails unless it is a socket.
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
