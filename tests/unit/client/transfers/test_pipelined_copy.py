import contextlib
import os
import signal
import socket
import tempfile
import threading

import numpy as np
import pytest

from tests.unit.client.ctrl_c import press_in
from xla_client.transfers import pipelined_copy
from xla_client.transfers.pipelined_copy import (
    PIECE_BYTES,
    SLOTS,
    THRESHOLD,
    WARM_SLOTS,
    RingCalls,
    RingUploads,
    SharedRing,
)
from xla_contract.errors import AbortedError, FailedPreconditionError, InvalidArgumentError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape

DEVICE = xla_data_pb2.DeviceHandle()
RING_BYTES = SLOTS * PIECE_BYTES


def copied(line, memory, size):
    """Return the bytes that come through a ring, read as a server does."""
    data = bytearray()
    for start in range(0, size, PIECE_BYTES):
        slot = line.recv(1)
        at = slot[0] * PIECE_BYTES
        data += memory[at : at + min(PIECE_BYTES, size - start)].tobytes()
        line.send(slot)
    return bytes(data)


class Server:
    """Memory, lines and the rpc, in this process. `answer` has what a call is answered with."""

    def __init__(self, directory):
        self.memory = np.zeros(4 * RING_BYTES, np.uint8)
        self.greetings = []
        self.values = []
        self.freed = []
        self.taken = 0
        self.has_memory = True
        self.has_lines = True
        self.answer = None
        self.is_silent = False
        self.lines = {}
        self.path = f"{directory}/socket"
        self.due = []
        self.unregistered = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                line.settimeout(10)
                self.greetings.append(line.recv(100))
                if self.has_lines:
                    self.lines[int(self.greetings[-1].split()[1])] = line
                    line.send(b"\1")
                else:
                    line.close()

    def take(self, size, timeout):
        if not self.has_memory:
            return None
        offset = self.taken
        self.taken += size
        return offset, self.memory[offset : offset + size]

    def call(self, name, request, timeout):
        assert name == "UploadSharedPieces"
        assert request.piece_bytes == PIECE_BYTES
        if self.is_silent:
            threading.Event().wait(100)
        if self.answer is not None:
            raise self.answer
        self.unregistered += [data.handle for data in request.unregister]
        size = int(np.prod(request.shape.dimensions)) * 4
        line = self.lines[request.offset]
        self.values.append(copied(line, self.memory[request.offset :], size))
        data = xla_data_pb2.GlobalDataHandle(handle=len(self.values))
        return extension_pb2.UploadSharedPiecesResponse(data=data)

    def take_due(self):
        due, self.due = self.due, []
        return due

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in self.lines.values():
            line.close()


@pytest.fixture
def server():
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        made = Server(directory)
        yield made
        made.close()


@pytest.fixture
def pieces(server):
    made = RingUploads(
        server.path,
        "token",
        RingCalls(server.call, server.take_due),
        server.take,
        server.freed.extend,
    )
    yield made
    made.close()


def array(size=THRESHOLD, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << 30, size // 4, np.int32)


def upload(pieces, value):
    return pieces.upload(Literal.from_numpy(value), DEVICE, None)


@pytest.mark.parametrize("size", [THRESHOLD, THRESHOLD + 4, 2 * RING_BYTES - 8])
def test_an_array_passes_piece_by_piece(pieces, server, size):
    for number in range(3):
        value = array(size, number)
        assert upload(pieces, value) == number + 1
        assert server.values[-1] == value.tobytes()
    # One ring for one array after the other.
    assert server.greetings == [b"token 0\n"]
    pieces.free_kept()
    assert server.freed == [0]


def test_what_is_to_be_freed_goes_along(pieces, server):
    server.due = [7, 8]
    assert upload(pieces, array()) == 1
    assert upload(pieces, array()) == 2
    assert server.unregistered == [7, 8]


def test_arrays_that_are_small_or_lie_otherwise_go_another_way(pieces, server):
    assert upload(pieces, array(THRESHOLD - 4)) is None
    square = array().reshape(1024, 1024)
    mirrored = Literal(Shape.parse("s32[1024,1024]{1,0}"), square[:, ::-1], ())
    assert pieces.upload(mirrored, DEVICE, None) is None
    by_columns = Shape.parse("s32[1024,1024]{0,1}")
    assert pieces.upload(Literal.from_numpy(square, by_columns), DEVICE, None) is None
    assert not server.greetings


@pytest.mark.parametrize("missing", ["has_memory", "has_lines"])
def test_without_memory_or_a_line_arrays_go_another_way(pieces, server, missing):
    setattr(server, missing, False)
    assert upload(pieces, array()) is None
    assert server.freed == ([0] if missing == "has_lines" else [])
    setattr(server, missing, True)
    assert upload(pieces, array()) == 1


def test_an_error_of_the_value_is_raised_and_ends_the_ring(pieces, server):
    assert upload(pieces, array()) == 1
    server.answer = InvalidArgumentError("no value")
    with pytest.raises(InvalidArgumentError, match="no value"):
        upload(pieces, array(4 * THRESHOLD))
    assert server.freed == [0]
    server.answer = None
    assert upload(pieces, array()) == 2
    assert server.greetings == [b"token 0\n", f"token {RING_BYTES}\n".encode()]


@pytest.mark.parametrize("error", [AbortedError, FailedPreconditionError])
def test_what_the_server_cannot_take_in_pieces_goes_another_way(pieces, server, error):
    server.answer = error("silent")
    assert upload(pieces, array(4 * THRESHOLD)) is None
    assert server.freed == [0]


def test_who_comes_while_processors_are_busy_goes_another_way(pieces):
    taken = 0
    while pieces._turns.acquire(blocking=False):
        taken += 1
    assert taken == max(1, os.cpu_count() // 2)
    assert upload(pieces, array()) is None
    pieces._turns.release()
    for number in range(2):
        assert upload(pieces, array()) == number + 1


def test_rings_of_a_session_that_is_closed_are_closed(pieces, server):
    assert upload(pieces, array()) == 1
    pieces.close()
    assert server.lines[0].recv(1) == b""
    assert server.freed == []


@pytest.mark.usefixtures("ctrl_c_raises")
def test_an_interrupt_ends_the_ring(pieces, server):
    server.is_silent = True
    main = threading.main_thread().ident
    press_in("_pass", lambda: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        upload(pieces, array(4 * THRESHOLD))
    assert server.freed == [0]
    assert not any(thread.name == "pieces" for thread in threading.enumerate())


@pytest.fixture
def line():
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    yield ours, theirs
    ours.close()
    theirs.close()


def all_of(line, size):
    data = b""
    while len(data) < size:
        data += line.recv(size - len(data))
    return data


def test_no_slot_is_written_before_it_is_free(line):
    memory = np.zeros(RING_BYTES, np.uint8)
    ring = SharedRing(0, memory, line[0])
    data = np.repeat(np.arange(1, SLOTS + 2, dtype=np.uint8), PIECE_BYTES)
    thread = threading.Thread(target=ring.write, args=(data,))
    thread.start()
    slots = all_of(line[1], SLOTS)
    assert sorted(slots) == list(range(SLOTS))
    assert [memory[slot * PIECE_BYTES] for slot in slots] == list(range(1, SLOTS + 1))
    line[1].send(slots[5:6])
    assert line[1].recv(1) == slots[5:6]
    thread.join()
    assert memory[slots[5] * PIECE_BYTES] == SLOTS + 1


def test_as_long_as_the_server_keeps_up_few_slots_are_used(line):
    ring = SharedRing(0, np.zeros(RING_BYTES, np.uint8), line[0])
    seen = set()

    def copy():
        while slot := line[1].recv(1):
            seen.add(slot)
            line[1].send(slot)

    thread = threading.Thread(target=copy)
    thread.start()
    for _ in range(WARM_SLOTS):
        ring.write(np.zeros(PIECE_BYTES, np.uint8))
        ring.settle()
    ring.shut()
    thread.join()
    assert len(seen) == 1


@pytest.mark.parametrize("end", [SharedRing.shut, lambda _: None])
def test_the_end_of_a_line_is_met_by_the_writer(line, end):
    ring = SharedRing(0, np.zeros(RING_BYTES, np.uint8), line[0])

    def leave():
        end(ring)
        line[1].close()

    threading.Timer(0.1, leave).start()
    with pytest.raises(ConnectionError):
        ring.write(np.zeros(2 * RING_BYTES, np.uint8))


def test_a_ring_is_kept_only_with_all_its_slots(line, monkeypatch):
    monkeypatch.setattr(pipelined_copy, "GREETING_SECONDS", 0.05)
    ring = SharedRing(0, np.zeros(RING_BYTES, np.uint8), line[0])
    ring.write(np.zeros(PIECE_BYTES, np.uint8))
    with pytest.raises(TimeoutError):
        ring.settle()
    line[1].send(line[1].recv(1))
    ring.settle()
