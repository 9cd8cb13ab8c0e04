import contextlib
import socket
import threading

import numpy as np
import pytest

from xla_contract.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.transfers import ring_upload
from xla_server.sessions.transfers.ring_upload import MAX_CHANNELS, RingTransfers, receive_ring

PIECE = 64


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    yield ours, theirs
    ours.close()
    theirs.close()


@contextlib.contextmanager
def writing(channel, ring, data):
    """A client that writes `data` through the ring meanwhile."""

    def write():
        free = list(range(ring.size // PIECE))
        for start in range(0, data.size, PIECE):
            free += b"" if free else channel.recv(64)
            piece, place = data[start : start + PIECE], free.pop(start % len(free))
            ring[place * PIECE :][: piece.size] = piece
            channel.send(bytes((place,)))

    thread = threading.Thread(target=write)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("places", [2, 3, 8])
@pytest.mark.parametrize("size", [1, PIECE, PIECE + 1, 7 * PIECE, 100 * PIECE - 3])
def test_a_value_passes_whatever_its_size(pair, places, size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    ring, target = np.zeros(places * PIECE, np.uint8), np.zeros(size, np.uint8)
    reserved: list[int] = []
    with writing(pair[1], ring, data):
        receive_ring(pair[0], ring, target, PIECE, Cancellation(), reserved.append)
    assert np.array_equal(target, data)
    assert reserved == [*range(PIECE, size, PIECE), size]


def test_a_value_of_no_bytes_waits_for_none(pair):
    receive_ring(
        pair[0],
        np.zeros(2 * PIECE, np.uint8),
        np.zeros(0, np.uint8),
        PIECE,
        Cancellation(),
        lambda _: None,
    )


def test_a_piece_without_memory_is_not_copied(pair):
    def refuse(byte_size: int) -> None:
        raise ResourceExhaustedError(f"no room for {byte_size} bytes")

    ring, target = np.ones(2 * PIECE, np.uint8), np.zeros(PIECE, np.uint8)
    pair[1].send(b"\0")
    with pytest.raises(ResourceExhaustedError, match=f"no room for {PIECE} bytes"):
        receive_ring(pair[0], ring, target, PIECE, Cancellation(), refuse)
    assert not target.any()


def received(channel, cancellation=None):
    ring, target = np.zeros(2 * PIECE, np.uint8), np.zeros(9 * PIECE, np.uint8)
    receive_ring(channel, ring, target, PIECE, cancellation or Cancellation(), lambda _: None)


def test_a_slot_must_exist(pair):
    pair[1].send(b"\1\2")
    with pytest.raises(InvalidArgumentError, match="one of 2 slots, got 2"):
        received(pair[0])


def test_a_client_that_leaves_half_way_is_an_error(pair):
    pair[1].send(b"\0")
    pair[1].close()
    with pytest.raises(AbortedError, match="until all pieces have come"):
        received(pair[0])


def test_a_client_that_is_silent_is_not_waited_for(pair, monkeypatch):
    monkeypatch.setattr(ring_upload, "SILENCE_SECONDS", 0.05)
    pair[1].send(b"\0")
    with pytest.raises(AbortedError, match=r"within 0\.05 s, got none"):
        received(pair[0])


@pytest.mark.parametrize("is_early", [False, True])
def test_who_gives_up_is_not_waited_for(pair, is_early):
    cancellation = Cancellation()
    timer = threading.Timer(0 if is_early else 0.1, cancellation.cancel)
    timer.start()
    if is_early:
        timer.join()
    with pytest.raises(CancelledError):
        received(pair[0], cancellation)
    timer.join()


def test_a_line_serves_one_call_at_a_time(pair):
    channels = RingTransfers()
    channels.add(8, pair[0])
    for _ in range(2):
        with channels.using(8) as channel:
            assert channel is pair[0]
            with pytest.raises(FailedPreconditionError, match="got offset 8"), channels.using(8):
                pass
    with pytest.raises(FailedPreconditionError, match="got offset 9"), channels.using(9):
        pass


def test_a_call_that_fails_ends_its_line(pair):
    channels = RingTransfers()
    channels.add(8, pair[0])
    with pytest.raises(KeyError), channels.using(8):
        raise KeyError
    assert len(channels) == 0
    assert pair[0].fileno() == -1
    assert pair[1].recv(1) == b""


@pytest.mark.parametrize("end", [lambda channels: channels.end(8), RingTransfers.close])
def test_a_line_that_ends_is_closed_when_its_call_has_left(pair, end):
    channels = RingTransfers()
    channels.add(8, pair[0])
    with channels.using(8) as channel:
        end(channels)
        assert pair[0].fileno() != -1
        with pytest.raises(AbortedError):
            received(channel)
    assert pair[0].fileno() == -1
    channels.end(8)


@pytest.mark.parametrize("end", [lambda channels: channels.end(8), RingTransfers.close])
def test_an_unused_channel_ends_at_once(pair, end):
    channels = RingTransfers()
    channels.add(8, pair[0])
    end(channels)
    assert pair[1].recv(1) == b""
    with pytest.raises(FailedPreconditionError), channels.using(8):
        pass


def test_a_new_channel_replaces_the_one_before(pair):
    channels = RingTransfers()
    channels.add(8, pair[0])
    ours, theirs = socket.socketpair()
    channels.add(8, ours)
    assert pair[1].recv(1) == b""
    with channels.using(8) as channel:
        assert channel is ours
    channels.close()
    theirs.close()
    with pytest.raises(FailedPreconditionError, match="connected"):
        channels.add(8, pair[1])


def test_there_are_only_so_many_channels(pair):
    channels = RingTransfers()
    made = [socket.socketpair() for _ in range(MAX_CHANNELS)]
    for offset, (ours, _) in enumerate(made):
        channels.add(offset, ours)
    with pytest.raises(ResourceExhaustedError, match="16 channels"):
        channels.add(MAX_CHANNELS, pair[0])
    channels.end(0)
    channels.add(MAX_CHANNELS, pair[0])
    assert len(channels) == MAX_CHANNELS
    channels.close()
    for _, theirs in made:
        theirs.close()
