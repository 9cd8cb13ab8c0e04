import array
import contextlib
import os
import socket
import struct
import tempfile
import threading

import numpy as np
import pytest

from xla_client.transfers import shared_memory
from xla_client.transfers.shared_memory import KEPT_BYTES, SharedMemory, is_enabled
from xla_contract.errors import DeadlineExceededError, InvalidArgumentError, ResourceExhaustedError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.shape_proto import shape_from_proto
from xla_server.sessions.transfers.arena import Arena

DEVICE = xla_data_pb2.DeviceHandle()
MIB = 1 << 20


class Server:
    """A server of one session, in this process: it keeps values as bytes."""

    def __init__(self, capacity=64 * MIB):
        self.directory = tempfile.TemporaryDirectory(dir="/tmp")
        self.path = f"{self.directory.name}/socket"
        self.arena = Arena(capacity, lambda _: None, lambda _: None)
        self.values = {}
        self.calls = []
        self.error = None
        self.greeting = b""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        with contextlib.suppress(OSError):  # The client has gone.
            self.connection, _ = self._listener.accept()
            self.greeting = self.connection.recv(100)
            descriptor = self.descriptor()
            if descriptor is not None:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))
                self.connection.sendmsg([struct.pack("<Q", self.arena.capacity)], [rights])
                os.close(descriptor)

    def descriptor(self):
        return self.arena.duplicate()

    def call(self, name, request, timeout=None):
        self.calls.append(name)
        if self.error is not None and name == self.error[0]:
            raise self.error[1]
        if name == "AllocateShared":
            offset, size = self.arena.allocate(request.bytes)
            part = extension_pb2.SharedAllocation(offset=offset, bytes=size)
            return extension_pb2.AllocateSharedResponse(allocation=part)
        if name == "FreeShared":
            for offset in request.offsets:
                self.arena.free(offset)
            return extension_pb2.FreeSharedResponse()
        if name == "UploadShared":
            size = shape_from_proto(request.shape).byte_size
            with self.arena.using(request.offset, size) as memory:
                self.values[len(self.values) + 1] = memory.tobytes()
            data = xla_data_pb2.GlobalDataHandle(handle=len(self.values))
            return extension_pb2.UploadSharedResponse(data=data)
        value = self.values[request.data.handle]
        with self.arena.using(request.offset, len(value)) as memory:
            memory[:] = np.frombuffer(value, np.uint8)
        return extension_pb2.DownloadSharedResponse(bytes=len(value))

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.arena.close()
        self.directory.cleanup()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def shared(server):
    made = SharedMemory(server.path, "token", server.call)
    yield made
    made.close()


def literal(byte_size, value=1):
    return Literal.from_numpy(np.full(byte_size // 4, value, np.int32))


def test_the_switch_and_the_argument_turn_it_off(monkeypatch):
    assert is_enabled(None)
    monkeypatch.setenv("XLA_CLIENT_SHARED_MEMORY", "0")
    assert not is_enabled(None)
    assert is_enabled(True)
    monkeypatch.delenv("XLA_CLIENT_SHARED_MEMORY")
    assert not is_enabled(False)
    monkeypatch.setattr("sys.platform", "win32")
    assert not is_enabled(True)


def test_an_allocation_serves_one_transfer_after_the_other(shared, server):
    for value in range(5):
        sent = literal(MIB, value)
        handle = shared.upload(sent, DEVICE, None)
        assert shared.download(handle, sent.shape, None) == sent
    assert server.greeting == b"token\n"
    assert server.calls.count("AllocateShared") == 1
    assert server.arena.part_count == 1


def test_a_result_has_its_allocation_as_long_as_it_lives(shared, server):
    handle = shared.upload(literal(MIB, 3), DEVICE, None)
    results = [shared.download(handle, literal(MIB).shape, None) for _ in range(3)]
    assert server.arena.part_count == 3
    shared.upload(literal(MIB, 4), DEVICE, None)
    assert server.arena.part_count == 4
    assert all((result.value == 3).all() for result in results)
    del results
    assert shared.leased_bytes == 0
    for _ in range(4):
        shared.upload(literal(MIB, 5), DEVICE, None)
    assert server.arena.part_count == 4


def test_an_allocation_that_the_server_may_still_use_is_given_back(shared, server):
    server.error = ("UploadShared", DeadlineExceededError("too late"))
    with pytest.raises(DeadlineExceededError):
        shared.upload(literal(MIB), DEVICE, None)
    assert server.arena.part_count == 0
    server.error = ("UploadShared", InvalidArgumentError("no"))
    with pytest.raises(InvalidArgumentError):
        shared.upload(literal(MIB), DEVICE, None)
    assert server.arena.part_count == 1


def test_what_is_kept_frees_memory_for_what_does_not_fit(shared, server):
    for size in (20 * MIB, 9 * MIB, 4 * MIB):
        shared.upload(literal(size), DEVICE, None)
    assert server.arena.part_count == 3
    assert shared.upload(literal(40 * MIB), DEVICE, None) is not None
    assert server.arena.part_count == 1
    assert shared.upload(literal(65 * MIB), DEVICE, None) is None
    assert shared.is_connected


def test_only_so_much_is_kept(shared, server, monkeypatch):
    monkeypatch.setattr(shared_memory, "KEPT_BYTES", 8 * MIB)
    assert KEPT_BYTES == 256 * MIB
    for size in (5 * MIB, 2 * MIB, 4 * MIB):
        shared.upload(literal(size), DEVICE, None)
    assert server.arena.part_count == 2
    shared.upload(literal(10 * MIB), DEVICE, None)
    assert server.arena.part_count == 0


def test_a_server_without_memory_is_retried_later(shared, server):
    shared.upload(literal(MIB), DEVICE, None)
    server.error = ("AllocateShared", ResourceExhaustedError("full"))
    assert shared.upload(literal(10 * MIB), DEVICE, None) is None
    server.error = None
    assert shared.upload(literal(10 * MIB), DEVICE, None) is not None


def test_the_token_is_never_revealed_to_another_user(shared, server, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert shared.upload(literal(MIB), DEVICE, None) is None
    server._thread.join()
    assert server.greeting == b""


def test_memory_that_could_shrink_is_not_touched(shared, server):
    def shrinking():
        descriptor = os.memfd_create("shrinking")
        os.ftruncate(descriptor, server.arena.capacity)
        return descriptor

    server.descriptor = shrinking
    assert shared.upload(literal(MIB), DEVICE, None) is None
    assert not shared.is_connected


def test_a_server_that_cuts_the_connection_off_is_asked_once(shared, server):
    def refuse():
        server.connection.close()

    server.descriptor = refuse
    for _ in range(3):
        assert shared.upload(literal(MIB), DEVICE, None) is None
    assert server.calls == []


def test_nothing_is_used_once_closed(shared, server):
    shared.close()
    assert shared.upload(literal(MIB), DEVICE, None) is None
    assert shared.download(1, literal(MIB).shape, None) is None
    assert not shared.is_connected
