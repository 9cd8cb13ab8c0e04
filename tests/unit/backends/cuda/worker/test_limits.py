"""Bounds of messages, of blocks, and of what a worker does at the same time."""

import socket
import threading

import pytest

from tests.unit.backends.cuda.worker.workers import InThread
from xla_contract.errors import CancelledError
from xla_server.backends.cuda.worker.exchange.messages import HEAD, Reader, send
from xla_server.backends.cuda.worker.exchange.shared_memory import (
    BLOCK_BYTES,
    BLOCK_OFFSETS,
    SharedMemory,
    new_shared_memory,
)
from xla_server.backends.cuda.worker.supervisor.generation import Limit
from xla_server.execution.cancellation import Cancellation


def test_a_message_passes_whole() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sent = InThread(send, ours, b"1" * (1 << 20))
        reader = Reader(theirs)
        assert reader.receive(2 << 20) == b"1" * (1 << 20)
        sent.result()
        for number in range(3):  # Messages that are read together come one by one.
            send(ours, number)
        assert [reader.receive(100) for _ in range(3)] == [0, 1, 2]


def test_a_message_above_the_limit_is_refused_before_it_is_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(HEAD.pack(1 << 60))
        with pytest.raises(ValueError, match=f"at most 100 bytes, got {1 << 60}"):
            Reader(theirs).receive(100)


def test_a_message_that_breaks_off_is_the_end() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(HEAD.pack(10) + b"1234")
        ours.close()
        with pytest.raises(EOFError):
            Reader(theirs).receive(100)


@pytest.mark.parametrize(
    ("offset", "size"),
    [(BLOCK_OFFSETS[0] + 1, 1), (BLOCK_OFFSETS[-1] + BLOCK_BYTES, 1), (0, 1), (-1, 1)],
)
def test_blocks_are_at_their_offsets(offset: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"got 1 bytes at {offset}"):
        SharedMemory(new_shared_memory()).block(offset, size)


def test_blocks_have_a_size() -> None:
    shared = SharedMemory(new_shared_memory())
    assert shared.block(BLOCK_OFFSETS[-1], BLOCK_BYTES).nbytes == BLOCK_BYTES
    with pytest.raises(ValueError, match=f"got {BLOCK_BYTES + 1} bytes"):
        shared.block(BLOCK_OFFSETS[0], BLOCK_BYTES + 1)


def test_one_beyond_a_limit_waits_for_another_to_end() -> None:
    limit, order = Limit(1), []

    def second() -> None:
        with limit.acquired():
            order.append("second")

    with limit.acquired():
        waiting = InThread(second)
        order.append("first")
    waiting.result()
    assert order == ["first", "second"]


def test_one_that_waits_ends_with_its_cancellation() -> None:
    limit, cancellation, waits = Limit(1), Cancellation(), threading.Event()

    def second() -> None:
        waits.set()
        with limit.acquired(cancellation):
            raise AssertionError("it was not its turn")

    with limit.acquired():
        waiting = InThread(second)
        waits.wait()
        cancellation.cancel()
        with pytest.raises(CancelledError):
            waiting.result()
    with limit.acquired():
        pass
