"""Large values that pass through shared memory in pieces, to a server process on the same host."""

import contextlib
import mmap
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import serving, start_server
from tests.e2e.transfers.shared_values import call, random_array, use
from tests.fault.plain import until
from tests.in_threads import in_threads
from xla_client.transfers.pipelined_copy import THRESHOLD
from xla_contract.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto

DEVICE_BYTES = 64 << 20
PAGE = 4096


server = serving("--session-device-bytes", str(DEVICE_BYTES))


def rings(client):
    return client._session.shared_memory._pieces._rings


@pytest.mark.parametrize("element_type", [each for each in ElementType if each.is_array])
def test_values_of_every_type_pass_unchanged(client, element_type):
    array = random_array(element_type, (THRESHOLD // element_type.byte_width + 3,))
    buffer = client.to_device(array)
    assert len(rings(client)) == 1
    back = buffer.to_numpy()
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


def test_values_of_every_size_pass_through_the_same_ring(client):
    array = np.random.default_rng(0).integers(0, 256, 5 * THRESHOLD, np.uint8)
    for size in (THRESHOLD, THRESHOLD + 1, 2 * THRESHOLD - 1, 5 * THRESHOLD):
        assert np.array_equal(client.to_device(array[:size]).to_numpy(), array[:size])
        assert [ring.offset for ring in rings(client)] == [0]
    turned = array.reshape(2048, -1).T
    assert np.array_equal(client.to_device(turned).to_numpy(), turned)
    by_columns = Shape.parse(f"u8[2048,{array.size // 2048}]{{0,1}}")
    buffer = client.to_device(Literal.from_numpy(array.reshape(2048, -1), by_columns))
    assert np.array_equal(buffer.to_numpy(), array.reshape(2048, -1))


def test_threads_upload_at_the_same_time(client):
    arrays = [np.full(THRESHOLD // 4 + number, number, np.int32) for number in range(8)]

    def work(array):
        for _ in range(5):
            np.testing.assert_array_equal(client.to_device(array).to_numpy(), array)

    in_threads(work, arrays)
    assert 1 <= len(rings(client)) <= 4


def test_a_value_beyond_the_limit_is_refused_and_the_next_passes(client):
    with pytest.raises(ResourceExhaustedError, match=f"may take {DEVICE_BYTES} bytes"):
        client.to_device(np.zeros(DEVICE_BYTES + 1, np.uint8))
    assert rings(client) == []
    array = np.arange(THRESHOLD, dtype=np.uint8)
    assert np.array_equal(client.to_device(array).to_numpy(), array)
    assert len(rings(client)) == 1


def test_dropped_results_free_memory(client):
    for value in range(5):
        array = np.full(DEVICE_BYTES * 3 // 4, value, np.uint8)
        assert np.array_equal(client.to_device(array).to_numpy(), array)
        assert len(rings(client)) == 1


def test_a_line_that_has_ended_is_no_end_of_transfers(client):
    array = np.arange(THRESHOLD, dtype=np.uint8)
    client.to_device(array)
    (ring,) = rings(client)
    call(client, "FreeShared", extension_pb2.FreeSharedRequest(offsets=[ring.offset]))
    for _ in range(2):
        assert np.array_equal(client.to_device(array).to_numpy(), array)
    assert client._session.shared_memory.is_connected


class Plain:
    """A client that keeps the rules of xla_extension.proto by hand, with a ring of two pages."""

    def __init__(self, address):
        self.client = xc.connect(address, shared_memory=False)
        opened = self.client._session.transport.session
        assert extension_pb2.CAPABILITY_SHARED_PIECES in self.client._session.transport.capabilities
        self._undo = contextlib.ExitStack()
        self._undo.enter_context(self.client)
        self._path, self._token = opened.shared_memory_socket, opened.token
        connection = self._connected()
        connection.sendall(self._token.encode() + b"\n")
        size, (descriptor,), _, _ = socket.recv_fds(connection, 8, 1)
        self.memory = mmap.mmap(descriptor, int.from_bytes(size, "little"))
        os.close(descriptor)
        request = extension_pb2.AllocateSharedRequest(bytes=2 * PAGE)
        self.ring = call(self.client, "AllocateShared", request).allocation.offset
        self.line = self._connected()
        self.line.sendall(f"{self._token} {self.ring}\n".encode())
        assert self.line.recv(1) == b"\1"

    def _connected(self):
        connection = self._undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.settimeout(10)
        connection.connect(self._path)
        return connection

    def start(self, shape, timeout=None):
        request = extension_pb2.UploadSharedPiecesRequest(
            offset=self.ring, piece_bytes=PAGE, shape=shape_to_proto(Shape.parse(shape))
        )
        return self.client._session.start("UploadSharedPieces", request, timeout)

    def send(self, place, data):
        self.memory.seek(self.ring + place * PAGE)
        self.memory.write(data)
        self.line.send(bytes((place,)))

    def close(self):
        self._undo.close()


@pytest.fixture
def plain(server):
    made = Plain(server.address)
    yield made
    made.close()


def test_a_plain_client_may_begin_before_its_call(plain):
    plain.send(0, b"a" * PAGE)
    plain.send(1, b"b" * PAGE)
    pending = plain.start(f"u8[{2 * PAGE + 1}]{{0}}")
    assert plain.line.recv(1)
    plain.send(0, b"c")
    value = plain.client.adopt(pending.result(100).data.handle)
    # Later writes to the memory do not change the value.
    plain.memory[plain.ring : plain.ring + 2 * PAGE] = bytes(2 * PAGE)
    assert value.to_numpy().tobytes() == b"a" * PAGE + b"b" * PAGE + b"c"


def test_a_slot_must_exist(plain):
    plain.send(2, b"a")
    with pytest.raises(InvalidArgumentError, match="one of 2 slots, got 2"):
        plain.start("u8[3]{0}").result(100)
    assert plain.line.recv(1) == b""


def test_pieces_that_are_no_values_are_refused(plain):
    plain.send(0, b"\0\1\2")
    with pytest.raises(InvalidArgumentError, match="0 or 1, got 2"):
        plain.start("pred[3]{0}").result(100)
    assert plain.line.recv(2) == b"\0"  # The slot was copied before it was checked.
    assert plain.line.recv(1) == b""


@pytest.mark.parametrize("way", ["cancel", "deadline", "hang up", "free"])
def test_an_upload_that_is_given_up_leaves_nothing(plain, way):
    before = use(plain.client).server_device_bytes
    pending = plain.start(f"u8[{16 << 20}]{{0}}", 0.5 if way == "deadline" else None)
    plain.send(0, b"a" * PAGE)
    assert plain.line.recv(1)
    assert use(plain.client).server_device_bytes == before + PAGE
    if way == "cancel":
        assert pending.cancel()
    elif way == "hang up":
        plain.line.close()
    elif way == "free":
        request = extension_pb2.FreeSharedRequest(offsets=[plain.ring])
        call(plain.client, "FreeShared", request)
    with pytest.raises((CancelledError, DeadlineExceededError, AbortedError)):
        pending.result(100)
    until(lambda: use(plain.client).server_device_bytes == before)


def test_calls_are_answered_while_uploads_wait_for_their_clients(server):
    waiting = [Plain(server.address) for _ in range(20)]
    pendings = [each.start(f"u8[{PAGE + 1}]{{0}}") for each in waiting]
    for each in waiting:
        each.send(0, b"a" * PAGE)
        assert each.line.recv(1)
    with xc.connect(server.address) as other:
        array = np.arange(THRESHOLD, dtype=np.uint8)
        assert np.array_equal(other.to_device(array).to_numpy(), array)
    for each, pending in zip(waiting, pendings, strict=True):
        each.send(1, b"b")
        assert pending.result(100).data.handle
        each.close()


def test_a_client_that_is_killed_half_way_leaves_nothing(forgetful):
    script = (
        "import signal, numpy, xla_client\n"
        "from xla_client.transfers.pipelined_copy import SharedRing\n"
        "def write(self, data, progress=None):\n"
        "    self._channel.send(bytes(1))\n"
        "    print(flush=True)\n"
        "    signal.pause()\n"
        "SharedRing.write = write\n"
        f"client = xla_client.connect({forgetful!r})\n"
        f"client.to_device(numpy.ones({8 * THRESHOLD}, numpy.uint8))\n"
    )
    with xc.connect(forgetful) as client:
        client.to_device(np.ones(THRESHOLD, np.uint8)).delete()
        until(lambda: use(client).server_device_bytes == 0)
        before = use(client)
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"\n"
            until(lambda: use(client).server_device_bytes > 0)
            process.send_signal(signal.SIGKILL)

        def is_as_before():
            now = use(client)
            return (now.server_shared_bytes, now.server_device_bytes) == (
                before.server_shared_bytes,
                before.server_device_bytes,
            )

        until(is_as_before)


def test_a_server_that_is_stopped_does_not_wait_for_pieces(tmp_path):
    flags = ("--platform", "interpreter", "--grace-seconds", "0.5")
    with start_server(tmp_path, *flags) as running:
        plain = Plain(running.address)
        pending = plain.start(f"u8[{PAGE + 1}]{{0}}")
        plain.send(0, b"a" * PAGE)
        assert plain.line.recv(1)
        running.process.send_signal(signal.SIGTERM)
        with pytest.raises(xc.XlaError):
            pending.result(100)
        assert running.process.wait(100) == 0
        plain.close()


def test_progress_is_reported_all_the_way_up_and_down(client):
    array, reported = np.arange(8 << 20, dtype=np.float32), []
    buffer = client.to_device(array, progress=lambda *now: reported.append(now))
    # A report for each piece: it is this way that the value went.
    assert reported == [(done << 20, array.nbytes) for done in range(1, 33)]
    reported.clear()
    np.testing.assert_array_equal(
        buffer.to_numpy(progress=lambda *now: reported.append(now)), array
    )
    assert reported[-1] == (array.nbytes, array.nbytes)
    assert reported == sorted(set(reported))


def test_what_progress_raises_ends_the_upload(client):
    array = np.zeros(8 << 20, np.float32)

    def fail(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.to_device(array, progress=fail)
    np.testing.assert_array_equal(client.to_device(array).to_numpy(), array)
