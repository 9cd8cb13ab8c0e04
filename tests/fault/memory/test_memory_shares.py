"""Clients that take the memory of the devices and keep it, while another one works."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import ServerProcess, start_server
from tests.fault.calls import is_served
from tests.fault.plain import Plain, Stream, ends_unavailable, until
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto

LIMIT = 32 << 20
SHAPE = Shape.parse("u8[25165824]{0}")
"""Three quarters of the limit."""
CHUNK = 1 << 20
CLIENTS = 12
ID = b"one"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    # All clients of the test are of one host.
    flags = (f"--max-device-bytes={LIMIT}", "--upload-silence-seconds=4")
    flags += ("--identity-share=1", "--connection-share=1")
    with start_server(tmp_path, "--platform", "interpreter", *flags) as running:
        yield running


@contextlib.contextmanager
def uploading(address: str) -> Iterator[list[tuple[Plain, Stream]]]:
    """Clients that have each begun an upload, all of which the server knows."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(CLIENTS):
            client = Plain(address)
            stack.callback(client.close)
            stream = client.stream("Upload")
            start = extension_pb2.UploadStart(upload_id=ID, shape=shape_to_proto(SHAPE))
            stream.send(extension_pb2.UploadRequest(start=start))
            found.append((client, stream))
        for client, _ in found:
            until(lambda client=client: received(client) is not None)  # type: ignore[misc]
        yield found


def received(client: Plain) -> int | None:
    """Return the received bytes of a client's upload; None if there is no upload."""
    with contextlib.suppress(Exception):
        return client("GetUpload", extension_pb2.GetUploadRequest(upload_id=ID)).offset
    return None


def test_starts_of_uploads_take_nothing_from_active_clients(server: ServerProcess) -> None:
    worker = Plain(server.address)
    with uploading(server.address) as clients:
        is_served(worker)
        assert worker.describe().server_device_bytes == 0
        for _, stream in clients:
            message = ends_unavailable(stream)
            assert "must come within 4 s, got none after 0 of 25165824 bytes" in message
        is_served(worker)
    is_served(worker)


def test_uploads_that_send_all_but_their_ends_leave_a_share_and_give_all_back(
    server: ServerProcess,
) -> None:
    worker = Plain(server.address)
    with uploading(server.address) as clients:
        sent = chunks(SHAPE.byte_size - CHUNK)
        for _, stream in clients:
            stream.send(*sent)
        until(lambda: worker.describe().server_device_bytes > LIMIT // 2)
        for _ in range(5):
            is_served(worker)
            assert worker.describe().server_device_bytes <= LIMIT - LIMIT // 16
        for _, stream in clients:
            with pytest.raises(Exception, match=r"leave 2097152 of 33554432|must come within 4 s"):
                stream.result(timeout=60)
        assert worker.describe().server_device_bytes == 0
        is_served(worker)


def chunks(size: int) -> list[extension_pb2.UploadRequest]:
    return [
        extension_pb2.UploadRequest(chunk=extension_pb2.Chunk(offset=start, data=bytes(CHUNK)))
        for start in range(0, size, CHUNK)
    ]
