"""A peer that speaks HTTP/2 by itself, and so can do what no gRPC library lets one do.

It reads all frames of the server and answers its pings, so it looks alive; but a stream's answer
may be as long as the peer has opened its window, and a call's message as late as it likes.
"""

import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

from tests.fault.plain import RPCS_BY_NAME
from xla_contract.wire.varint import encode_varint

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, AWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACKNOWLEDGED = END_STREAM = 1
END_HEADERS = 4
_HEADER_TABLE_SIZE, _INITIAL_WINDOW_SIZE = 1, 4
_FIRST_WINDOW = 65_535
_LARGEST_DATA = 16_384
_FRAME = struct.Struct(">BHBBL")
_SETTING = struct.Struct(">HL")


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """A frame of RFC 9113, section 4.1."""
    size = len(payload)
    return _FRAME.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def header_block(path: str, metadata: Iterable[tuple[str, str]] = ()) -> bytes:
    """The headers of a call, as HPACK literals without Huffman codes (RFC 7541).

    The numbers are of its static table: POST, http, and the names of the path and the authority.
    """
    block = b"\x83\x86\x04" + _text(path) + b"\x01" + _text("a")
    for name, value in (("content-type", "application/grpc"), ("te", "trailers"), *metadata):
        block += b"\0" + _text(name) + _text(value)
    return block


def _text(text: str) -> bytes:
    return header_string(text.encode("ascii"))


def header_string(data: bytes) -> bytes:
    """Return a string literal of HPACK without a Huffman code (RFC 7541, section 5.2)."""
    if len(data) < 127:
        return bytes([len(data)]) + data
    return b"\x7f" + encode_varint(len(data) - 127) + data


class RawPeer:
    """A connection to a server, whose streams begin with a window of `window` bytes."""

    def __init__(
        self,
        address: str,
        *,
        window: int = 0,
        token: str = "",
        metadata: Iterable[tuple[str, str]] = (),
    ) -> None:
        host, _, port = address.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=20)
        self._metadata = [*metadata]
        if token:
            self._metadata.append(("xla-session", token))
        self._following = 1
        self._sending = threading.Lock()
        self._news = threading.Condition()
        self.frames: list[tuple[int, int]] = []
        """Kinds and streams of what the server has sent."""
        self.received: Counter[int] = Counter()
        """Bytes of data by stream."""
        self.header_blocks: dict[int, bytes] = {}
        """Header blocks by stream. grpc writes texts literally: the peer has no table of earlier
        ones.
        """
        self._over: set[int] = set()
        """Streams on which the server has sent all it will."""
        self._server_window = _FIRST_WINDOW
        self._allowed = Counter({0: _FIRST_WINDOW})
        """Bytes that the server takes on the connection, 0, and on streams beyond its window."""
        self.is_cut_off = False
        settings = _SETTING.pack(_HEADER_TABLE_SIZE, 0)
        settings += _SETTING.pack(_INITIAL_WINDOW_SIZE, window)
        self._send(PREFACE + frame(SETTINGS, payload=settings))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, name: str, request: Any = None, *, half_close: bool = True) -> int:
        """Begin a call of one of our rpcs, or of any path; gives its stream.

        Without a request none is sent, nor an end.
        """
        stream, self._following = self._following, self._following + 2
        path = name if name.startswith("/") else RPCS_BY_NAME[name].path
        block = header_block(path, self._metadata)
        self._send(frame(HEADERS, END_HEADERS, stream, block))
        if request is not None:
            self.send_message(stream, request, half_close=half_close)
        return stream

    def send_message(self, stream: int, request: Any, *, half_close: bool = True) -> None:
        """Send a message of a call, in one frame, whatever the server's window."""
        data = request.SerializeToString()
        message = b"\0" + len(data).to_bytes(4, "big") + data
        self.send_data(stream, message, half_close=half_close)

    def send_data(self, stream: int, data: bytes, *, half_close: bool = False) -> None:
        """Send bytes of messages, each of which begins with a zero and its length in 4 bytes."""
        self._send(frame(DATA, END_STREAM if half_close else 0, stream, data))

    def send_as_allowed(self, stream: int, data: bytes) -> bool:
        """Send bytes of messages as the server takes them; False where it has ended the stream."""
        sent = 0
        while sent < len(data):
            with self._news:
                assert self._news.wait_for(lambda: self._ended(stream) or self._room(stream), 20)
                if self._ended(stream):
                    return False
                size = min(len(data) - sent, self._room(stream), _LARGEST_DATA)
                self._allowed.subtract({0: size, stream: size})
            self.send_data(stream, data[sent : sent + size])
            sent += size
        return True

    def _ended(self, stream: int) -> bool:
        return self.is_cut_off or (RESET, stream) in self.frames

    def _room(self, stream: int) -> int:
        return max(0, min(self._allowed[0], self._server_window + self._allowed[stream]))

    def open_window(self, stream: int, size: int) -> None:
        """Let the server send so many bytes more on a stream, 0 for the connection."""
        self._send(frame(WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big")))

    def ping(self) -> None:
        """Ask whether the server is there."""
        self._send(frame(PING, payload=bytes(8)))

    def wait_for(self, kind: int, stream: int, timeout: float = 100) -> None:
        """Wait until the server has sent a frame of a kind on a stream."""
        with self._news:
            assert self._news.wait_for(lambda: (kind, stream) in self.frames, timeout), self.frames

    def wait_for_end(self, stream: int, timeout: float = 100) -> None:
        """Wait until the server has ended a stream, or the connection is cut off."""
        with self._news:
            assert self._news.wait_for(
                lambda: stream in self._over or self._ended(stream), timeout
            ), self.frames

    def close(self) -> None:
        """Leave without a word."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, data: bytes) -> None:
        with self._sending:
            self._connection.sendall(data)

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._connection.makefile("rb") as source:
            while len(head := source.read(_FRAME.size)) == _FRAME.size:
                high, low, kind, flags, stream = _FRAME.unpack(head)
                payload = source.read((high << 16) + low)
                if kind in (SETTINGS, PING) and not flags & ACKNOWLEDGED:
                    answer = payload if kind == PING else b""
                    self._send(frame(kind, ACKNOWLEDGED, 0, answer))
                with self._news:
                    self.frames.append((kind, stream))
                    self._note(kind, flags, stream, payload)
                    if kind == DATA:
                        self.received[stream] += len(payload)
                    self._news.notify_all()
        with self._news:
            self.is_cut_off = True
            self._news.notify_all()

    def _note(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self._over.add(stream)
        if kind == HEADERS:
            self.header_blocks[stream] = self.header_blocks.get(stream, b"") + payload
        elif kind == WINDOW_UPDATE:
            self._allowed[stream] += int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACKNOWLEDGED:
            self._server_window = dict(_SETTING.iter_unpack(payload)).get(
                _INITIAL_WINDOW_SIZE, self._server_window
            )
