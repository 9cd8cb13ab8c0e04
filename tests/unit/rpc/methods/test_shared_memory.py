"""The rpcs of shared memory, as their messages."""

import mmap
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import kept
from xla_contract.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnimplementedError,
    XlaError,
)
from xla_contract.stubs import xla_data_pb2, xla_extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import Unary
from xla_server.rpc.methods.shared_memory import METHODS
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.session import Session
from xla_server.sessions.transfers.free_list import MAX_PARTS, PAGE

ROWS_OF_SIX = np.arange(6, dtype=np.int32).reshape(2, 3)
SIZE = ROWS_OF_SIX.nbytes
Handle = xla_data_pb2.GlobalDataHandle


class Case:
    """A session whose client is connected to its shared memory."""

    def __init__(self) -> None:
        limits = {"shared_memory_bytes": 1 << 20, "session_shared_memory_bytes": 1 << 20}
        self.service = Session(shared_resources(20_000, devices=2, **limits))
        self.arena = self.service.shared_memory.connect()
        descriptor = self.arena.duplicate()
        self.memory = mmap.mmap(descriptor, self.arena.capacity)
        os.close(descriptor)

    def call(self, name: str, request: Message, cancellation: Cancellation | None = None) -> Any:
        row = METHODS[name]
        assert isinstance(row, Unary)
        return row.method(self.service, request, cancellation or Cancellation())

    def allocate(self, byte_size: int) -> xla_extension_pb2.SharedAllocation:
        allocation: xla_extension_pb2.SharedAllocation = self.call(
            "AllocateShared", xla_extension_pb2.AllocateSharedRequest(bytes=byte_size)
        ).allocation
        return allocation

    def write(self, offset: int, data: bytes) -> None:
        with self.arena.using(offset, len(data)) as memory:
            memory[:] = np.frombuffer(data, np.uint8)

    def read(self, offset: int, size: int) -> bytes:
        with self.arena.using(offset, size) as memory:
            return memory.tobytes()

    def upload(self, offset: int, shape: str | None, **fields: Any) -> int:
        request = xla_extension_pb2.UploadSharedRequest(offset=offset, **fields)
        if shape is not None:
            request.shape.CopyFrom(shape_to_proto(Shape.parse(shape)))
        handle: int = self.call("UploadShared", request).data.handle
        return handle

    def download(
        self, handle: int, offset: int, shape: str = "", cancellation: Cancellation | None = None
    ) -> xla_extension_pb2.DownloadSharedResponse:
        request = xla_extension_pb2.DownloadSharedRequest(data=Handle(handle=handle), offset=offset)
        if shape:
            request.shape_with_layout.CopyFrom(shape_to_proto(Shape.parse(shape)))
        response: xla_extension_pb2.DownloadSharedResponse = self.call(
            "DownloadShared", request, cancellation
        )
        return response

    def line(self, offset: int) -> socket.socket:
        """The client's end of a line of the allocation at `offset`."""
        ours, theirs = socket.socketpair()
        theirs.settimeout(10)
        self.service.shared_memory.add_channel(offset, ours)
        return theirs

    def upload_pieces(self, offset: int, shape: str | None, **fields: Any) -> int:
        fields = {"piece_bytes": PAGE} | fields
        cancellation = fields.pop("cancellation", None)
        request = xla_extension_pb2.UploadSharedPiecesRequest(offset=offset, **fields)
        if shape is not None:
            request.shape.CopyFrom(shape_to_proto(Shape.parse(shape)))
        handle: int = self.call("UploadSharedPieces", request, cancellation).data.handle
        return handle

    def send(self, line: socket.socket, offset: int, data: bytes) -> threading.Thread:
        """A thread that sends `data` through a ring of two pages, until both are free again."""

        def work() -> None:
            free = [0, 1]
            for start in range(0, len(data), PAGE):
                free += b"" if free else line.recv(2)
                piece, place = np.frombuffer(data[start : start + PAGE], np.uint8), free.pop()
                at = offset + place * PAGE
                np.frombuffer(self.memory, np.uint8)[at : at + piece.size] = piece
                line.send(bytes((place,)))
            while len(free) < 2:
                free += line.recv(2)

        thread = threading.Thread(target=work)
        thread.start()
        return thread


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case()
    yield made
    made.service.close()
    made.service.engine.close(1)
    assert made.service.engine.memory.used_bytes == made.service.engine.arenas.lent_bytes == 0


def test_a_value_passes_both_ways_in_any_layout(case: Case) -> None:
    there, back = case.allocate(SIZE), case.allocate(SIZE)
    assert min(there.bytes, back.bytes) >= SIZE
    case.write(there.offset, ROWS_OF_SIX.T.tobytes())
    device = xla_data_pb2.DeviceHandle(handle=1, device_count=2)
    handle = case.upload(there.offset, "s32[2,3]{0,1}", device_handle=device)
    value = case.service.data.get(handle)
    np.testing.assert_array_equal(value.to_literal().to_numpy(), ROWS_OF_SIX)
    assert value.device.ordinal == 1
    # Later writes of the client do not change the value.
    case.write(there.offset, bytes(SIZE))
    for shape, memory in (("", ROWS_OF_SIX), ("s32[2,3]{0,1}", ROWS_OF_SIX.T)):
        response = case.download(handle, back.offset, shape)
        assert case.read(back.offset, SIZE) == memory.tobytes()
        assert shape_from_proto(response.shape) == Shape.parse(shape or "s32[2,3]{1,0}")
        assert (response.bytes, list(response.dynamic_sizes)) == (SIZE, [])


def test_sizes_of_dynamic_dimensions_come_with_the_value(case: Case) -> None:
    literal = Literal.from_numpy(np.float32([1, 2]), Shape.parse("f32[<=4]{0}"))
    back = case.allocate(16)
    response = case.download(kept(case.service, literal), back.offset)
    assert list(response.dynamic_sizes) == [2]
    assert np.frombuffer(case.read(back.offset, 16), np.float32)[:2].tolist() == [1, 2]


def test_parts_are_given_back(case: Case) -> None:
    offsets = [case.allocate(100).offset for _ in range(3)]
    case.call("FreeShared", xla_extension_pb2.FreeSharedRequest(offsets=offsets[:1]))
    # All are tried, and the first error is reported.
    with pytest.raises(NotFoundError, match=str(offsets[0])):
        case.call("FreeShared", xla_extension_pb2.FreeSharedRequest(offsets=offsets))
    assert case.arena.part_count == 0
    too_many = xla_extension_pb2.FreeSharedRequest(offsets=[0] * (MAX_PARTS + 1))
    rule = f"at most {MAX_PARTS} allocations, got {MAX_PARTS + 1} offsets"
    with pytest.raises(InvalidArgumentError, match=rule):
        case.call("FreeShared", too_many)


@pytest.mark.parametrize(
    ("shape", "error", "rule"),
    [
        (None, InvalidArgumentError, "shape must be that of an array, got none"),
        ("(s32[6]{0})", InvalidArgumentError, r"that of an array, got \(s32"),
        ("token[]", InvalidArgumentError, "that of an array, got token"),
        ("s32[6]", InvalidArgumentError, r"must say its layout, got s32\[6\] without"),
        ("s32[<=6]{0}", InvalidArgumentError, r"must have static sizes, got s32\[<=6\]"),
        ("s32[4000]{0}", InvalidArgumentError, "16000"),
    ],
)
def test_only_arrays_that_fit_are_taken(
    case: Case, shape: str | None, error: type[XlaError], rule: str
) -> None:
    there = case.allocate(64)
    with pytest.raises(error, match=rule):
        case.upload(there.offset, shape)
    assert case.service.data.used_bytes == case.service.data.reserved_bytes == 0


def test_bytes_that_are_no_values_are_refused(case: Case) -> None:
    there = case.allocate(4)
    case.write(there.offset, b"\0\1\2\1")
    with pytest.raises(InvalidArgumentError, match="2"):
        case.upload(there.offset, "pred[4]{0}")
    device = xla_data_pb2.DeviceHandle(handle=1, device_count=1)
    with pytest.raises(InvalidArgumentError, match="below its device_count, got handle 1 of 1"):
        case.upload(there.offset, "u8[4]{0}", device_handle=device)
    with pytest.raises(NotFoundError, match=str(there.offset + 1)):
        case.upload(there.offset + 1, "u8[1]{0}")


def test_there_must_be_memory_among_the_values(case: Case) -> None:
    there = case.allocate(40_000)
    with pytest.raises(
        ResourceExhaustedError, match=r"20000 bytes.*40000 bytes more for an upload"
    ):
        case.upload(there.offset, "u8[40000]{0}")


def test_what_is_downloaded_is_an_array_that_fits(case: Case) -> None:
    back = case.allocate(8)
    value = kept(case.service, ROWS_OF_SIX)
    pair = kept(case.service, (ROWS_OF_SIX, ROWS_OF_SIX))
    with pytest.raises(InvalidArgumentError, match="5000"):
        case.download(kept(case.service, np.zeros(5000, np.uint8)), back.offset)
    with pytest.raises(InvalidArgumentError, match=r"got s32\[3\]\{0\} for s32\[2,3\]"):
        case.download(value, back.offset, "s32[3]{0}")
    with pytest.raises(UnimplementedError, match=r"only arrays pass .*got \(s32") as caught:
        case.download(pair, back.offset)
    assert "DeconstructTuple" in caught.value.hint
    with pytest.raises(NotFoundError, match="12345"):
        case.download(12345, back.offset)
    with pytest.raises(InvalidArgumentError, match="must hold a data handle, got none"):
        case.call("DownloadShared", xla_extension_pb2.DownloadSharedRequest(offset=back.offset))
    with pytest.raises(NotFoundError, match=str(back.offset + 1)):
        case.download(value, back.offset + 1)


def test_nothing_is_written_for_a_client_that_gave_up(case: Case) -> None:
    back = case.allocate(SIZE)
    value = kept(case.service, ROWS_OF_SIX)
    case.write(back.offset, b"x" * SIZE)
    cancellation = Cancellation()
    cancellation.cancel(CancelledError("the client gave up"))
    with pytest.raises(CancelledError, match="gave up"):
        case.download(value, back.offset, cancellation=cancellation)
    assert case.read(back.offset, SIZE) == b"x" * SIZE


def test_a_value_passes_in_pieces(case: Case) -> None:
    ring = case.allocate(2 * PAGE).offset
    line = case.line(ring)
    random = np.random.default_rng(0)
    device = xla_data_pb2.DeviceHandle(handle=1, device_count=2)
    for size in (4, PAGE, 3 * PAGE + 4):
        array = random.integers(0, 1 << 30, size // 4, np.int32)
        sender = case.send(line, ring, array.tobytes())
        handle = case.upload_pieces(ring, f"s32[{size // 4}]{{0}}", device_handle=device)
        sender.join()
        value = case.service.data.get(handle)
        assert value.device.ordinal == 1
        case.write(ring, bytes(2 * PAGE))
        np.testing.assert_array_equal(value.to_literal().to_numpy(), array)
    line.close()


def test_freed_values_release_memory_for_pieces(case: Case) -> None:
    ring = case.allocate(2 * PAGE).offset
    line = case.line(ring)
    old = kept(case.service, np.zeros(15_000, np.uint8))
    with pytest.raises(ResourceExhaustedError):
        case.upload_pieces(ring, "u8[8192]{0}")
    line.close()
    line = case.line(ring)
    sender = case.send(line, ring, bytes(range(256)) * 32)
    freed = [Handle(handle=12345), Handle(handle=old)]
    assert case.upload_pieces(ring, "u8[8192]{0}", unregister=freed)
    sender.join()
    line.close()
    assert case.service.data.used_bytes == 8192


PIECES_REFUSED: tuple[tuple[str | None, dict[str, int], type[XlaError], str], ...] = (
    (None, {}, InvalidArgumentError, "array, got none"),
    ("(s32[1]{0})", {}, InvalidArgumentError, "array"),
    ("s32[6]", {}, InvalidArgumentError, "layout"),
    ("s32[<=6]{0}", {}, InvalidArgumentError, "static"),
    (
        "s32[2,3]{0,1}",
        {},
        InvalidArgumentError,
        r"row-major without .*s32\[2,3\]\{0,1\}",
    ),
    ("s32[6]{0}", {"piece_bytes": 0}, InvalidArgumentError, "got 0 slots of 0 bytes in 8192"),
    ("s32[6]{0}", {"piece_bytes": -PAGE}, InvalidArgumentError, "0 slots of -4096"),
    ("s32[6]{0}", {"piece_bytes": 2 * PAGE}, InvalidArgumentError, "got 1 slots of 8192"),
    ("s32[6]{0}", {"piece_bytes": 64}, InvalidArgumentError, "multiple of 4096"),
    ("s32[8000]{0}", {}, ResourceExhaustedError, "32000 bytes more for an upload"),
)


@pytest.mark.parametrize(("shape", "fields", "error", "rule"), PIECES_REFUSED)
def test_what_cannot_come_in_pieces_ends_the_line(
    case: Case, shape: str | None, fields: dict[str, int], error: type[XlaError], rule: str
) -> None:
    ring = case.allocate(2 * PAGE).offset
    line = case.line(ring)
    with pytest.raises(error, match=rule):
        case.upload_pieces(ring, shape, **fields)
    assert line.recv(1) == b""
    line.close()
    with pytest.raises(FailedPreconditionError, match=f"got offset {ring} without") as caught:
        case.upload_pieces(ring, "s32[6]{0}")
    assert "token" in caught.value.hint
    assert case.service.data.used_bytes == case.service.data.reserved_bytes == 0


def test_the_number_of_slots_is_bounded(case: Case) -> None:
    ring = case.allocate(65 * PAGE).offset
    line = case.line(ring)
    with pytest.raises(InvalidArgumentError, match=r"slots for .* got 65 slots"):
        case.upload_pieces(ring, "s32[6]{0}")
    line.close()


def test_pieces_that_are_no_values_are_refused(case: Case) -> None:
    ring = case.allocate(2 * PAGE).offset
    line = case.line(ring)
    sender = case.send(line, ring, b"\0\1\2")
    with pytest.raises(InvalidArgumentError, match="0 or 1, got 2"):
        case.upload_pieces(ring, "pred[3]{0}")
    sender.join()
    line.close()
    assert case.service.data.used_bytes == case.service.data.reserved_bytes == 0


def test_pieces_that_do_not_come_leave_nothing(case: Case) -> None:
    ring = case.allocate(2 * PAGE).offset
    cancellation = Cancellation()
    ends = (
        (lambda line: line.close(), AbortedError),
        (
            lambda _: case.call("FreeShared", xla_extension_pb2.FreeSharedRequest(offsets=[ring])),
            None,
        ),
        (lambda _: cancellation.cancel(), CancelledError),
        (lambda _: case.service.shared_memory.disconnect(case.arena), None),
    )
    for end, error in ends:
        if not case.arena.part_count:
            ring = case.allocate(2 * PAGE).offset
        line = case.line(ring)
        line.send(b"\0")
        timer = threading.Timer(0.1, end, (line,))
        timer.start()
        with pytest.raises(error or AbortedError):
            case.upload_pieces(ring, "s32[2000]{0}", cancellation=cancellation)
        timer.join()
        line.close()
        assert case.service.data.used_bytes == case.service.data.reserved_bytes == 0
        cancellation = Cancellation()


def test_who_waits_for_pieces_keeps_no_other_call_from_running(case: Case) -> None:
    ring = case.allocate(2 * PAGE).offset
    line = case.line(ring)
    threads, answered = ThreadPool(1, "test"), threading.Event()
    handles: list[int] = []
    threads.submit(lambda: handles.append(case.upload_pieces(ring, f"u8[{PAGE + 1}]{{0}}")))
    line.send(b"\0")
    assert line.recv(1) == b"\0"
    threads.submit(answered.set)
    assert answered.wait(100)
    assert not handles
    line.send(b"\1")
    assert line.recv(1) == b"\1"
    threads.shutdown(wait=True)
    assert handles
    line.close()


def test_a_line_belongs_to_an_allocation(case: Case) -> None:
    memory = case.service.shared_memory
    ring = case.allocate(2 * PAGE).offset
    ours, theirs = socket.socketpair()
    with pytest.raises(NotFoundError, match=str(ring + PAGE)):
        memory.add_channel(ring + PAGE, ours)
    assert theirs.recv(1) == b""
    theirs.close()
    line = case.line(ring)
    case.call("FreeShared", xla_extension_pb2.FreeSharedRequest(offsets=[ring]))
    assert line.recv(1) == b""
    line.close()
    line = case.line(case.allocate(2 * PAGE).offset)
    memory.connect()
    assert line.recv(1) == b""
    line.close()
    line = case.line(case.allocate(2 * PAGE).offset)
    memory.close()
    assert line.recv(1) == b""
    line.close()
    ours, theirs = socket.socketpair()
    with pytest.raises(FailedPreconditionError, match="connected"):
        memory.add_channel(0, ours)
    assert theirs.recv(1) == b""
    theirs.close()


def test_a_session_without_shared_memory_has_none(case: Case) -> None:
    case.service.shared_memory.disconnect(case.arena)
    for name, request in (
        ("AllocateShared", xla_extension_pb2.AllocateSharedRequest(bytes=1)),
        ("FreeShared", xla_extension_pb2.FreeSharedRequest(offsets=[0])),
        ("UploadShared", xla_extension_pb2.UploadSharedRequest()),
        ("DownloadShared", xla_extension_pb2.DownloadSharedRequest()),
        ("UploadSharedPieces", xla_extension_pb2.UploadSharedPiecesRequest()),
    ):
        with pytest.raises(FailedPreconditionError, match="must be connected") as caught:
            case.call(name, request)
        assert "chunks" in caught.value.hint
