"""Downloads of values that an execution is still to give, and chunks in any form."""

import threading
import types

import numpy as np
import pytest

from tests.unit.sessions.engines import shared_resources
from xla_contract.errors import CancelledError, InvalidArgumentError, NotFoundError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.chunk_codec import encode_chunk, scan_chunk
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import Streaming, Unary
from xla_server.rpc.methods.transfers import METHODS
from xla_server.sessions.session import Session

VALUE = Literal.from_numpy(np.arange(5, dtype=np.float32))


class Call:
    """A download of a value to come, in a thread of its own."""

    def __init__(self) -> None:
        self.service = Session(shared_resources(1000))
        ((self.handle, self.pending),) = self.service.data.expect([VALUE.shape], "program")
        self.cancellation = Cancellation()
        self.sent: list[bytes] = []
        self.error: BaseException | None = None
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._has_begun.wait(100)

    def receive(self) -> extension_pb2.DownloadRequest:
        self._has_begun.set()
        data = xla_data_pb2.GlobalDataHandle(handle=self.handle)
        return extension_pb2.DownloadRequest(data=data)

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def _run(self) -> None:
        row = METHODS["Download"]
        assert isinstance(row, Streaming)
        session = types.SimpleNamespace(service=self.service)
        try:
            row.method(session, self, self.cancellation)  # type: ignore[arg-type]
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(100)
        assert not self._thread.is_alive()


def test_a_value_to_come_is_waited_for():
    call = Call()
    backend = call.service.engine.backend
    buffer = backend.to_device(VALUE, backend.devices[0])
    call.service.data.fulfil(call.handle, call.pending, buffer)
    call.join()
    assert call.error is None
    (message,) = call.sent
    assert extension_pb2.DownloadResponse.FromString(message).chunk.data == VALUE.value.tobytes()
    call.service.unregister([call.handle])
    assert call.service.engine.memory.used_bytes == 0


def test_waiting_for_a_value_ends_with_the_call():
    call = Call()
    call.cancellation.cancel()
    call.join()
    assert isinstance(call.error, CancelledError)
    assert call.sent == []


def test_the_error_of_the_execution_is_reported():
    call = Call()
    call.service.data.fail(call.handle, call.pending, CancelledError("the execution was cancelled"))
    call.join()
    with pytest.raises(CancelledError, match="the execution was cancelled"):
        raise call.error or AssertionError


class Uploading:
    """A stream of Upload whose messages are these."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)
        self.sent: list[extension_pb2.UploadResponse] = []

    def receive_bytes(self) -> bytes | None:
        return self._messages.pop(0) if self._messages else None

    def receive(self) -> extension_pb2.UploadRequest | None:
        message = self.receive_bytes()
        return None if message is None else self.parse(message)

    def parse(self, message: bytes) -> extension_pb2.UploadRequest:
        return extension_pb2.UploadRequest.FromString(message)

    def send(self, message: extension_pb2.UploadResponse) -> None:
        self.sent.append(message)


def upload(service: Session, *messages: bytes) -> int:
    row = METHODS["Upload"]
    assert isinstance(row, Streaming)
    stream = Uploading(*messages)
    session = types.SimpleNamespace(service=service)
    row.method(session, stream, Cancellation())  # type: ignore[arg-type]
    return stream.sent[0].data.handle


def start(**fields: object) -> bytes:
    begun = extension_pb2.UploadStart(upload_id=b"1", shape=shape_to_proto(VALUE.shape), **fields)  # type: ignore[arg-type]
    return extension_pb2.UploadRequest(start=begun).SerializeToString()


def test_a_chunk_in_a_form_that_only_the_parser_reads_is_one_too(service):
    data = VALUE.value.tobytes()
    # An unknown field, and a chunk of two parts one of which says where it belongs.
    unknown = encode_chunk(0, data[:8]) + b"\xfa\x3e\x01x"
    place = extension_pb2.UploadRequest(chunk=extension_pb2.Chunk(offset=8)).SerializeToString()
    split = (
        place
        + extension_pb2.UploadRequest(chunk=extension_pb2.Chunk(data=data[8:])).SerializeToString()
    )
    assert scan_chunk(unknown) is None
    assert scan_chunk(split) is None
    handle = upload(service, start(), unknown, split)
    np.testing.assert_array_equal(service.transfer_to_client(handle, None).to_numpy(), VALUE.value)


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([], "must begin with a start, got nothing"),
        ([encode_chunk(0, b"")], "must begin with a start, got a chunk"),
        ([start(), start()], "chunks must follow the start of an upload, got a message of none"),
        ([start(), b""], "chunks must follow the start of an upload, got a message of none"),
        (
            [start(device_handle=xla_data_pb2.DeviceHandle(handle=1, device_count=1))],
            "below its device_count, got handle 1 of 1",
        ),
        ([start()], "the stream must end after the last byte, got its end after 0 of 20 bytes"),
    ],
)
def test_messages_of_an_upload_come_in_their_order(service, messages, rule):
    with pytest.raises(InvalidArgumentError, match=rule):
        upload(service, *messages)


def test_an_upload_is_asked_for_and_abandoned(service):
    def call(name, request):
        row = METHODS[name]
        assert isinstance(row, Unary)
        return row.method(service, request, Cancellation())

    requested = extension_pb2.GetUploadRequest(upload_id=b"1")
    with pytest.raises(InvalidArgumentError, match="its end after 8 of 20 bytes"):
        upload(service, start(), encode_chunk(0, VALUE.value.tobytes()[:8]))
    state = call("GetUpload", requested)
    assert (state.offset, state.size, state.HasField("data")) == (8, 20, False)
    handle = upload(service, start(offset=8), encode_chunk(8, VALUE.value.tobytes()[8:]))
    state = call("GetUpload", requested)
    assert (state.offset, state.size, state.data.handle) == (20, 20, handle)
    call("AbandonUpload", extension_pb2.AbandonUploadRequest(upload_id=b"1"))
    for name, request in (
        ("GetUpload", requested),
        ("AbandonUpload", extension_pb2.AbandonUploadRequest(upload_id=b"1")),
    ):
        with pytest.raises(NotFoundError, match=f"got id {b'1'.hex()}"):
            call(name, request)
