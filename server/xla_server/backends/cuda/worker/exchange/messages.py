"""Requests and answers on a connection of server and worker, and how they are sent.

A message is its length and a pickled record; both ends are this project. An answer is the value
that the request's record names, or an exception of `protocol.py` or RequestError.
"""

import dataclasses
import pickle
import socket
import struct
from typing import Any, TypeAlias

from xla_server.backends.cuda.worker.exchange.protocol import DeviceProgram

HEAD = struct.Struct("<Q")
"""The bytes of the message that follows; on the control connection the index of a new one."""

MAX_REQUEST_BYTES = 1 << 30
"""Bytes of a request at most: a program's modules are its largest part."""

MAX_ANSWER_BYTES = 64 << 20
"""Bytes of an answer at most: the addresses of a suspended run are its largest part."""

INLINE_BYTES = 64 << 10
"""Bytes of an array that a message carries at most; larger ones pass through shared memory."""


class RequestError(Exception):
    """The worker cannot do a request, and goes on; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Allocate:
    """Allocate so many bytes; the answer is the address."""

    byte_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Upload:
    """Write bytes to the device; the answer is None."""

    address: int
    data: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Download:
    """Read bytes of the device, which are the answer."""

    address: int
    byte_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class UploadStaged:
    """Write to the device what is at an offset of the shared memory; the answer is None."""

    address: int
    offset: int
    byte_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class DownloadStaged:
    """Write bytes of the device to an offset of the shared memory; the answer is None."""

    address: int
    offset: int
    byte_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """Load a program without constants, which are at these addresses; the answer is its number."""

    program: DeviceProgram
    constants: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Run a program until it is over or needs the server; the answer is the Outcome.

    The run belongs to the connection, which has one at most.
    """

    program: int
    parameters: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Resume:
    """Go on with the connection's suspended run; the answer is the Outcome."""


@dataclasses.dataclass(frozen=True, slots=True)
class Abandon:
    """End the connection's suspended run and free its memory; the answer is None."""


Body: TypeAlias = (
    Allocate | Upload | Download | UploadStaged | DownloadStaged | Load | Run | Resume | Abandon
)


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request, which is done after memory is freed and programs are unloaded."""

    body: Body
    freed: tuple[int, ...] = ()
    unloaded: tuple[int, ...] = ()


def send(connection: socket.socket, record: object) -> None:
    """Send one message. Raises OSError where the other end is gone."""
    data = pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
    connection.sendall(HEAD.pack(len(data)) + data)


def receive(connection: socket.socket, limit: int) -> Any:
    """Return the record of the next message.

    Raises EOFError where the other end is gone, ValueError for a message above `limit` bytes.
    """
    (size,) = HEAD.unpack(_received(connection, HEAD.size))
    if size > limit:
        raise ValueError(f"a message must have at most {limit} bytes, got {size}")
    return pickle.loads(_received(connection, size))


def _received(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise EOFError("the other end of the connection is gone")
        view = view[count:]
    return data
