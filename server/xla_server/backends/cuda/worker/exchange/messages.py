"""Requests and answers on a connection of server and worker, and how they are sent.

A message is its length and a pickled record; both ends are this project. An answer is the value
that the request's record names, or an exception of `protocol.py` or RequestError. Records are named
tuples: pickling other classes takes twice as long, a tenth of a run of one small kernel.
"""

import pickle
import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from xla_server.backends.cuda.worker.exchange.protocol import DeviceProgram
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan

HEAD = struct.Struct("<Q")
"""The bytes of the message that follows; on the control connection the index of a new one."""

MAX_REQUEST_BYTES = 1 << 30
"""Largest request, in bytes: a program's modules are its largest part."""

MAX_ANSWER_BYTES = 64 << 20
"""Largest answer, in bytes: the addresses of a suspended run are its largest part."""

INLINE_BYTES = 64 << 10
"""Largest array in a message, in bytes; larger ones are copied through shared memory."""

_READ_BYTES = 16 << 10
"""Bytes that are read at a time: more than a request to run has."""


class RequestError(Exception):
    """The worker cannot do a request and remains usable; the message says why."""


class PlansRefusedError(RequestError):
    """The libraries of a device do not compute some plans of a program, which kernels can."""

    def __init__(self, reasons: Mapping[LibraryPlan, str]) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return "; ".join(self.reasons.values())


class Allocate(NamedTuple):
    """Allocate memory that begins with the bytes `data`; the answer is its address."""

    byte_size: int
    data: bytes = b""


class Upload(NamedTuple):
    """Write bytes to the device; the answer is None."""

    address: int
    data: bytes


class Download(NamedTuple):
    """Read bytes of the device, which are the answer."""

    address: int
    byte_size: int


class UploadStaged(NamedTuple):
    """Copy bytes at an offset of the shared memory to the device; the answer is None."""

    address: int
    offset: int
    byte_size: int


class DownloadStaged(NamedTuple):
    """Write bytes of the device to an offset of the shared memory; the answer is None."""

    address: int
    offset: int
    byte_size: int


class Load(NamedTuple):
    """Load a program whose constants are at these addresses; the answer is its number."""

    program: DeviceProgram
    constants: tuple[int, ...]


class Run(NamedTuple):
    """Run a program until it is over or needs the server; the answer is the Outcome.

    The run belongs to the connection, which has one at most. Its parameters are results of the
    launched runs with the numbers `after`, among others. It is `Launched` only if `is_launched`.
    """

    program: int
    parameters: tuple[int, ...]
    after: tuple[int, ...] = ()
    is_launched: bool = False


class Resume(NamedTuple):
    """Continue the connection's suspended or launched run; the answer is the Outcome."""


class Abandon(NamedTuple):
    """End the connection's suspended or launched run and free its memory; the answer is None."""


Body: TypeAlias = (
    Allocate | Upload | Download | UploadStaged | DownloadStaged | Load | Run | Resume | Abandon
)


class Request(NamedTuple):
    """A request, with memory to free and programs to unload before it is executed."""

    body: Body
    freed: tuple[int, ...] = ()
    unloaded: tuple[int, ...] = ()


def send(connection: socket.socket, record: object) -> None:
    """Send one message. Raises OSError if the other end is closed."""
    data = pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
    connection.sendall(HEAD.pack(len(data)) + data)


class Reader:
    """Reads messages, each small one with one system call. For one thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._rest = connection, b""

    def receive(self, limit: int) -> Any:
        """Return the record of the next message.

        Raises EOFError if the other end is gone, ValueError for a message above `limit` bytes.
        """
        data = self._rest
        while len(data) < HEAD.size:
            data += self._some()
        (size,) = HEAD.unpack_from(data)
        if size > limit:
            raise ValueError(f"a message must have at most {limit} bytes, got {size}")
        end = HEAD.size + size
        message = data if len(data) >= end else self._whole(data, end)
        self._rest = data[end:]
        return pickle.loads(memoryview(message)[HEAD.size : end])

    def _some(self) -> bytes:
        data = self._connection.recv(_READ_BYTES)
        if not data:
            raise EOFError("the other end of the connection is gone")
        return data

    def _whole(self, begin: bytes, size: int) -> bytearray:
        data = bytearray(size)
        data[: len(begin)] = begin
        view = memoryview(data)[len(begin) :]
        while view:
            count = self._connection.recv_into(view)
            if not count:
                raise EOFError("the other end of the connection is gone")
            view = view[count:]
        return data
