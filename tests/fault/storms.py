"""Storms: what a hostile client can do to a server as fast as it can, in a process of its own.

`python -m tests.fault.storms NAME ADDRESS` writes a line once its storm has begun and ends with its
standard input. Each storm is a function of a host, a port and an event that ends it.
"""

import contextlib
import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from tests.command_line import command_line
from tests.fault.calls import launch
from tests.fault.plain import RPCS_BY_NAME, Plain
from tests.fault.programs import ONES, double, endless
from tests.fault.raw_peer import (
    ACKNOWLEDGED,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    RawPeer,
    frame,
    header_block,
    header_string,
)
from tests.unit.sessions.sample_runs import argument_of
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import parse_shape
from xla_contract.wire.literals.proto import literal_to_proto
from xla_contract.wire.shape_proto import shape_to_proto

CONNECTIONS = 2000
STREAM_CONNECTIONS = 20
STREAMS = 100
"""Streams on each of STREAM_CONNECTIONS connections: 2,000 in all."""
UNREAD = 64
UPLOADS = 64
UPLOAD_BYTES = 64 << 20
PROGRAM_SESSIONS = 4
PROGRAMS = 60
"""Programs of each of PROGRAM_SESSIONS sessions, which may run 64."""
CALLS = 16
"""Short programs that are called at the same time beside them."""
CONTINUATION = 9
_BLOCK_BYTES = 16_000
"""Size of one frame of headers; a frame may have 16,384 bytes."""
_FRAMES = 100
"""Frames of headers on one connection."""
_DEADLINES_PER_CONNECTION = 5000
"""Calls of one connection, which is then made anew: a peer keeps a note of every frame."""

Storm = Callable[[str, threading.Event], None]
_STARTED = "begun"


def _begun() -> None:
    print(_STARTED, flush=True)


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def _attached(address: str) -> Plain:
    """Return a client whose session lasts while it has its connection."""
    client = Plain(address)
    client.stream("Converse")
    return client


def connections(address: str, ended: threading.Event) -> None:
    """Hold CONNECTIONS connections open that say nothing but that they are HTTP/2."""
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(_connect(address))
            connection.sendall(PREFACE + frame(SETTINGS))
        _begun()
        ended.wait()


def streams(address: str, ended: threading.Event) -> None:
    """Hold calls of all streaming rpcs open whose first message never comes."""
    names = itertools.cycle([n for n, rpc in RPCS_BY_NAME.items() if rpc.request_streaming])
    with contextlib.ExitStack() as stack:
        for _ in range(STREAM_CONNECTIONS):
            peer = stack.enter_context(RawPeer(address, window=1 << 20))
            for _ in range(STREAMS):
                peer.call(next(names))
        _begun()
        ended.wait()


def unread_downloads(address: str, ended: threading.Event) -> None:
    """Ask for a value again and again, in every way, and read none of the answers."""
    client = _attached(address)
    literal = literal_to_proto(Literal.from_numpy(ONES.repeat(64)))
    data = client("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data
    whole = xla_pb2.TransferToClientRequest(data=data)
    pieces = extension_pb2.DownloadRequest(data=data)
    with contextlib.ExitStack() as stack:
        for number in range(UNREAD):
            if number % 16 == 0:
                peer = stack.enter_context(RawPeer(address, token=client.token or ""))
            peer.call("TransferToClient", whole)
            peer.call("Download", pieces)
        _begun()
        ended.wait()
    client.close()


def deadlines(address: str, ended: threading.Event) -> None:
    """Call as fast as the server answers, with deadlines of a millisecond."""
    client = _attached(address)
    executable = client.compile(endless())
    literal = literal_to_proto(Literal.from_numpy(ONES))
    data = client("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data
    request = xla_pb2.ExecuteRequest(handle=executable, arguments=[data])
    begun = False
    while not ended.is_set():
        metadata = (("xla-session", client.token or ""), ("grpc-timeout", "1m"))
        with contextlib.suppress(OSError), RawPeer(address, window=1 << 20, metadata=metadata) as p:
            for number in range(_DEADLINES_PER_CONNECTION):
                stream = p.call("Execute", request)
                if not begun:
                    begun = True
                    _begun()
                if number % 16 == 15:
                    p.wait_for_end(stream)
                if ended.is_set() or p.is_cut_off:
                    break
    client.close()


def headers(address: str, ended: threading.Event) -> None:
    """Send headers without an end, and few that stand for many, one connection after the other.

    The next connection is made when the server has read all of the one before: grpc takes half a
    microsecond for each header, which is longer than sending one byte takes.
    """
    path = RPCS_BY_NAME["Execute"].path
    endless_block = b"\0" + header_string(b"a") + header_string(b"b" * _BLOCK_BYTES)
    # An entry of the table of headers, then a byte for each time that it is repeated.
    entry = b"\x40" + header_string(b"a") + header_string(b"c" * 4000)
    repeated = b"\xbe" * (_BLOCK_BYTES - 5000)
    first, later = header_block(path) + entry + repeated, header_block(path) + repeated
    ping = frame(PING, payload=bytes(8))
    for number in itertools.count():
        if ended.is_set():
            return
        with contextlib.suppress(OSError), _connect(address) as connection:
            connection.sendall(PREFACE + frame(SETTINGS))
            if number % 2:
                connection.sendall(frame(HEADERS, 0, 1, header_block(path)))
                connection.sendall(frame(CONTINUATION, 0, 1, endless_block) * _FRAMES)
            else:
                bombs = [first, *([later] * (_FRAMES - 1))]
                for stream, block in enumerate(bombs):
                    flags = END_HEADERS | END_STREAM
                    connection.sendall(frame(HEADERS, flags, 2 * stream + 1, block))
                connection.sendall(ping)
            if number == 1:
                _begun()
            _await_pong(connection)


def _await_pong(connection: socket.socket) -> None:
    """Wait until the server answers a ping or closes the connection."""
    with connection.makefile("rb") as source:
        while head := source.read(9):
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            source.read(size)
            if kind == PING and flags & ACKNOWLEDGED:
                return


def slow_uploads(address: str, ended: threading.Event) -> None:
    """Promise UPLOADS values of UPLOAD_BYTES each and send a byte of each now and then."""
    client = _attached(address)
    shape = shape_to_proto(parse_shape(f"u8[{UPLOAD_BYTES}]{{0}}"))
    uploads = []
    for number in range(UPLOADS):
        upload = client.stream("Upload")
        name = number.to_bytes(4, "big")
        upload.send(
            extension_pb2.UploadRequest(
                start=extension_pb2.UploadStart(upload_id=name, shape=shape)
            )
        )
        uploads.append(upload)
    _begun()
    for offset in itertools.count():
        for upload in uploads:
            chunk = extension_pb2.Chunk(offset=offset, data=b"\1")
            upload.send(extension_pb2.UploadRequest(chunk=chunk))
        if ended.wait(0.1):
            break
    client.close()


def programs(address: str, ended: threading.Event) -> None:
    """Run programs without end in PROGRAM_SESSIONS sessions, and short ones beside them."""
    client = _attached(address)
    literal = literal_to_proto(Literal.from_numpy(ONES))
    for _ in range(PROGRAM_SESSIONS):
        each = client.also()
        # A session lasts while it has a stream.
        each.stream("Converse")
        executable = each.compile(endless())
        data = each("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data
        for _ in range(PROGRAMS):
            launch(each, executable, argument_of(data.handle))
    request = xla_pb2.ExecuteRequest(handle=client.compile(double()))
    request.arguments.append(
        client("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data
    )
    _begun()
    while not ended.is_set():
        calls = [client.begin("Execute", request) for _ in range(CALLS)]
        kept = [call.result().output for call in calls if call.exception() is None]
        client("Unregister", xla_pb2.UnregisterRequest(data=kept))
    client.close()


STORMS: Mapping[str, Storm] = MappingProxyType(
    {
        "connections": connections,
        "streams": streams,
        "unread-downloads": unread_downloads,
        "deadlines": deadlines,
        "headers": headers,
        "slow-uploads": slow_uploads,
        "programs": programs,
    }
)


@contextlib.contextmanager
def storm(name: str, address: str) -> "Iterator[subprocess.Popen[str]]":
    """Run a storm in a process of its own, from its beginning until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fault.storms", name, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{_STARTED}\n"
        yield process
        assert process.poll() is None, "the storm must go on until it is ended"
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Run the storm that the command line names until standard input ends."""
    parser = command_line("tests.fault.storms", __doc__)
    parser.add_argument("storm", choices=STORMS)
    parser.add_argument("address")
    chosen = parser.parse_args()
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    STORMS[chosen.storm](chosen.address, ended)


if __name__ == "__main__":
    main()
