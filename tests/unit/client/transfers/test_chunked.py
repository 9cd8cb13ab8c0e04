"""Resumption of broken transfers by the client, against a server in this process."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from xla_client.transfers import chunked as transfers
from xla_client.transfers.chunked import ChunkedTransfers
from xla_contract.errors import (
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.chunk_codec import encode_chunk, scan_chunk
from xla_contract.wire.shape_proto import shape_to_proto

VALUE = np.arange(100, dtype=np.uint8)
LITERAL = Literal.from_numpy(VALUE)
DEVICE = xla_data_pb2.DeviceHandle(handle=0, device_count=1)
HANDLE = 77
MESSAGE_BYTES = 40 + 10


class Uploading:
    """A stream of Upload that breaks off when it has taken `breaks_at` bytes in all."""

    def __init__(self, server: "Server", breaks_at: int | None) -> None:
        self._server = server
        self._breaks_at = breaks_at

    def send(self, message: Any) -> None:
        server = self._server
        if isinstance(message, extension_pb2.UploadRequest):
            server.starts.append(message.start.offset)
            if message.start.offset != len(server.received):
                raise FailedPreconditionError("goes on elsewhere")
            return
        chunk = scan_chunk(message)
        assert chunk is not None
        assert chunk.offset == len(server.received)
        if self._breaks_at is not None and len(server.received) >= self._breaks_at:
            raise UnavailableError("cut")
        server.received += chunk.data
        if chunk.checksum is not None:
            assert chunk.checksum == zlib.crc32(server.received)
            server.is_complete = True

    def half_close(self) -> None:
        pass

    def receive(self) -> Any:
        assert self._server.is_complete
        if self._server.loses_answer:
            self._server.loses_answer = False
            raise UnavailableError("cut")
        return extension_pb2.UploadResponse(data=xla_data_pb2.GlobalDataHandle(handle=HANDLE))

    def cancel(self) -> None:
        self._server.cancelled += 1


class Downloading:
    """A stream of Download of the messages given, an error among them raised."""

    def __init__(self, messages: Iterator[Any]) -> None:
        self._messages = messages

    def receive(self) -> Any:
        message = next(self._messages, None)
        if isinstance(message, Exception):
            raise message
        return message

    def cancel(self) -> None:
        pass


class Server:
    """A server of one upload or download, whose streams break at `breaks`."""

    def __init__(self, *breaks: int | None) -> None:
        self.breaks = list(breaks)
        self.received = bytearray()
        self.starts: list[int] = []
        self.calls: list[str] = []
        self.cancelled = 0
        self.is_complete = self.loses_answer = False
        self.forgets = False
        self.downloads: Callable[[int], Iterator[Any]] | None = None

    def call(self, name: str, request: Any, timeout: float | None = None) -> Any:
        self.calls.append(name)
        if name == "AbandonUpload":
            return extension_pb2.AbandonUploadResponse()
        if self.forgets:
            self.forgets = False
            self.received.clear()
            raise NotFoundError("never heard of it")
        data = xla_data_pb2.GlobalDataHandle(handle=HANDLE) if self.is_complete else None
        return extension_pb2.GetUploadResponse(offset=len(self.received), size=100, data=data)

    def stream(
        self, name: str, request: Any = None, timeout: float | None = None, *, parse: bool = True
    ) -> Any:
        if name == "Upload":
            return Uploading(self, self.breaks.pop(0) if self.breaks else None)
        assert not parse
        assert self.downloads is not None
        self.starts.append(request.offset)
        return Downloading(self.downloads(request.offset))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers.time, "sleep", lambda seconds: None)


def _upload(server: Server, **options: Any) -> int:
    return ChunkedTransfers(server, MESSAGE_BYTES).upload(LITERAL, DEVICE, **options)


def _download(server: Server, **options: Any) -> Literal:
    return ChunkedTransfers(server, MESSAGE_BYTES).download(HANDLE, LITERAL.shape, **options)


def test_an_upload_is_sent_in_chunks_with_progress():
    server = Server()
    seen: list[tuple[int, int]] = []
    assert _upload(server, progress=lambda *now: seen.append(now)) == HANDLE
    assert bytes(server.received) == VALUE.tobytes()
    assert seen == [(done, 100) for done in range(10, 101, 10)]
    assert (server.calls, server.cancelled) == ([], 0)


def test_an_upload_goes_on_where_the_server_is():
    server = Server(30, 50, 90)
    assert _upload(server) == HANDLE
    assert server.starts == [0, 30, 50, 90]
    assert server.calls == ["GetUpload"] * 3
    assert server.cancelled == 3
    assert bytes(server.received) == VALUE.tobytes()


def test_an_answer_that_was_lost_is_asked_for():
    server = Server()
    server.loses_answer = True
    assert _upload(server) == HANDLE
    assert (server.starts, server.calls) == ([0], ["GetUpload"])


def test_an_upload_the_server_has_forgotten_begins_anew():
    server = Server(30)
    server.forgets = True
    assert _upload(server) == HANDLE
    assert server.starts == [0, 0]


def test_an_offset_that_no_chunk_ended_at_has_its_checksum_too():
    server = Server(30)
    original = server.call

    def call(name: str, request: Any, timeout: float | None = None) -> Any:
        # The server has another way of counting: it has dropped some of what came.
        del server.received[27:]
        return original(name, request, timeout)

    server.call = call  # type: ignore[method-assign]
    assert _upload(server) == HANDLE
    assert server.starts == [0, 27]


def test_what_moved_on_after_it_was_asked_for_is_asked_for_again():
    server = Server(30, 30)
    original = server.call

    def call(name: str, request: Any, timeout: float | None = None) -> Any:
        answer = original(name, request, timeout)
        if server.calls == ["GetUpload"]:
            server.received += VALUE[30:40].tobytes()
        return answer

    server.call = call  # type: ignore[method-assign]
    assert _upload(server) == HANDLE
    assert server.starts == [0, 30, 40]


def test_tries_without_progress_end():
    server = Server(*[30] * 100)
    with pytest.raises(UnavailableError, match="cut"):
        _upload(server)
    assert len(server.starts) == 1 + transfers.TRIES
    assert server.calls[-1] == "AbandonUpload"


def test_what_another_try_would_not_mend_is_raised_at_once():
    server = Server()
    server.received += b"x"
    with pytest.raises(FailedPreconditionError):
        _upload(server)
    assert server.calls == ["AbandonUpload"]


def test_a_transfer_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch):
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    monkeypatch.setattr(transfers.time, "monotonic", clock)
    with pytest.raises((DeadlineExceededError, UnavailableError)):
        _upload(Server(*[30] * 100), timeout=3.0)
    with pytest.raises(DeadlineExceededError, match=r"got none in 0\.5 s"):
        _upload(Server(), timeout=0.5)


@pytest.mark.parametrize(("limit", "size"), [(2**31 - 1, 1 << 20), (1024, 1024 - 40)])
def test_chunks_fit_into_messages(limit, size):
    assert ChunkedTransfers(Server(), limit)._chunk_bytes == size


def test_large_arrays_of_static_sizes_are_uploaded_in_chunks():
    chunks = ChunkedTransfers(Server(), 2**31 - 1)
    large = transfers.THRESHOLD
    assert chunks.can_upload(Shape.parse(f"u8[{large}]"))
    assert not chunks.can_upload(Shape.parse(f"u8[{large - 1}]"))
    assert not chunks.can_upload(Shape.parse(f"u8[<={large}]"))
    assert chunks.can_download(Shape.parse(f"u8[<={large}]"))
    assert not chunks.can_download(Shape.parse(f"(u8[{large}])"))
    # A value that fits into no message must be sent in chunks.
    assert ChunkedTransfers(Server(), 1024).can_upload(Shape.parse("u8[1000]"))


def _head(shape: Shape = LITERAL.shape, **fields: Any) -> bytes:
    return extension_pb2.DownloadResponse(shape=shape_to_proto(shape), **fields).SerializeToString()


def _messages(start: int, stop: int = 100, checksum: int | None = None) -> Iterator[bytes]:
    whole = VALUE.tobytes()
    checksum = zlib.crc32(whole) if checksum is None else checksum
    head = _head()
    for at in range(start, stop, 10):
        end = min(at + 10, stop)
        yield head + encode_chunk(at, whole[at:end], checksum if end == 100 else None)
        head = b""


def test_a_download_comes_in_chunks_with_progress():
    server = Server()
    server.downloads = _messages
    seen: list[tuple[int, int]] = []
    assert _download(server, progress=lambda *now: seen.append(now)) == LITERAL
    assert seen == [(done, 100) for done in range(10, 101, 10)]


def test_a_download_goes_on_where_it_was():
    server = Server()

    def cut(offset: int) -> Iterator[Any]:
        yield from _messages(offset, min(offset + 30, 100))
        if offset < 60:
            yield UnavailableError("cut")

    server.downloads = cut
    with pytest.raises(DataLossError, match="after 90 of 100 bytes"):
        _download(server)
    assert server.starts == [0, 30, 60]
    server.starts.clear()
    server.downloads = lambda offset: (
        iter([*_messages(0, 50), UnavailableError("cut")]) if not offset else _messages(offset)
    )
    assert _download(server) == LITERAL
    assert server.starts == [0, 50]


def test_downloads_without_progress_end():
    server = Server()
    server.downloads = lambda offset: iter([UnavailableError("cut")])
    with pytest.raises(UnavailableError, match="cut"):
        _download(server)
    assert server.starts == [0] * transfers.TRIES


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        (lambda: _messages(0, checksum=1), "must have the checksum sent"),
        (lambda: iter([]), "after 0 of 100 bytes"),
        (lambda: _messages(10), "must follow one another"),
        (lambda: iter([encode_chunk(0, b"a")]), "the shape asked for, got None"),
        (lambda: iter([_head(Shape.parse("u8[99]{0}"))]), "got u8"),
    ],
)
def test_what_is_not_what_was_asked_for_is_refused(messages, rule):
    server = Server()
    server.downloads = lambda _: messages()
    with pytest.raises(DataLossError, match=rule):
        _download(server)


def test_dynamic_sizes_come_with_the_first_chunk():
    shape = Shape.parse("u8[<=100]{0}")
    server = Server()
    whole = VALUE.tobytes()
    message = _head(shape, dynamic_sizes=[5]) + encode_chunk(0, whole, zlib.crc32(whole))
    server.downloads = lambda _: iter([message])
    literal = ChunkedTransfers(server, MESSAGE_BYTES).download(HANDLE, shape)
    assert literal.actual.tolist() == [0, 1, 2, 3, 4]


def test_an_answer_without_a_handle_is_refused(monkeypatch: pytest.MonkeyPatch):
    server = Server()
    monkeypatch.setattr(Uploading, "receive", lambda self: None)
    with pytest.raises(DataLossError, match="must hold a data handle"):
        _upload(server)


def test_errors_of_the_server_are_raised_and_the_upload_abandoned(monkeypatch: pytest.MonkeyPatch):
    server = Server()

    def refuse(self: Uploading, message: Any) -> None:
        raise InvalidArgumentError("no")

    monkeypatch.setattr(Uploading, "send", refuse)
    with pytest.raises(InvalidArgumentError, match="no"):
        _upload(server)
    assert (server.calls, server.cancelled) == (["AbandonUpload"], 1)
