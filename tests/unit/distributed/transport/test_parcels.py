"""Arrays of other ranks, from when they are sent until they are taken or dropped."""

import types
from typing import Any

import mpi4py
import numpy as np
import pytest

from xla_server.distributed.transport import parcels
from xla_server.distributed.transport.frames import Bytes
from xla_server.distributed.transport.parcels import Parcels, Stamp
from xla_server.ops.collectives.collective import EAGER_BYTES, SMALL_BYTES

LARGE = SMALL_BYTES + 1
SIZES = (0, 3, SMALL_BYTES, LARGE, EAGER_BYTES)


class GoneError(Exception):
    """MPI's error for a rank that has ended."""


class Request:
    """A message of a rank. It has ended when it is received."""

    def __init__(self, wire: "Wire", rank: int, tag: int, data: Bytes) -> None:
        self.wire, self.rank, self.tag, self.data = wire, rank, tag, data
        self.has_ended = False

    def test(self) -> bool:
        if self.wire.is_broken:
            raise GoneError("rank 1 has ended")
        return self.has_ended

    def receive(self, into: Any) -> "Request":
        into[0][:] = self.data
        self.has_ended = True
        return self

    Test, Irecv = test, receive


class Wire:
    """A communicator on which a rank, 1, sends to itself."""

    def __init__(self) -> None:
        self.sent: list[Request] = []
        self.is_broken = False

    def send(self, content: Any, rank: int, tag: int) -> Request:
        self.sent.append(Request(self, rank, tag, np.frombuffer(content[0], np.uint8)))
        return self.sent[-1]

    def probe(self, source: int, tag: int, status: Any) -> Request | None:
        found = next((each for each in self.sent if each.tag == tag), None)
        if found is not None:
            self.sent.remove(found)
            status.source, status.Get_count = found.rank, lambda _: found.data.size
        return found

    def receive(self, into: Any, rank: int, tag: int) -> Request:
        found = self.probe(rank, tag, types.SimpleNamespace())
        assert found is not None
        return found.receive(into)

    Isend, Improbe, Irecv = send, probe, receive


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    names = {"BYTE": 1, "ANY_SOURCE": -1, "Exception": GoneError, "Status": types.SimpleNamespace}
    monkeypatch.setattr(mpi4py, "MPI", types.SimpleNamespace(**names), raising=False)
    return Wire()


@pytest.fixture
def own(wire: Wire) -> Parcels:
    return Parcels(types.SimpleNamespace(parcels=wire))  # type: ignore[arg-type]


def sent(size: int) -> Bytes:
    return np.arange(size, dtype=np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_what_ranks_send_is_received_by_its_stamp(own: Parcels, size: int) -> None:
    into = np.zeros((2, size), np.uint8)
    stamps = [Stamp(7, visit, b"s" * 16) for visit in (0, 1)]
    early = own.exchange(stamps[1], {1: sent(size)}, {})
    other = own.exchange(stamps[1], {}, {1: into[1]})
    late = own.exchange(stamps[0], {}, {1: into[0]})
    # The bytes of a large one stay with the sender until they are received.
    assert [early.is_done(), late.is_done(), other.is_done()] == [size < LARGE, False, True]
    assert early.is_done()
    np.testing.assert_array_equal(into, [np.zeros(size), sent(size)])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("is_early", [False, True])
def test_what_is_sent_for_a_run_that_has_ended_is_dropped(
    own: Parcels, wire: Wire, size: int, is_everywhere: bool, is_early: bool
) -> None:
    def end() -> None:
        own.keep_from(8) if is_everywhere else own.end(7)

    delivery = own.exchange(Stamp(7, 0, b"s" * 16), {1: sent(size)}, {1: sent(size)})
    if is_early:
        end()
    own.poll()
    end()
    own.poll()
    assert wire.sent == []
    assert delivery.may_abandon(is_lost=False)
    assert not delivery.is_done()
    assert own.kept == []


@pytest.mark.parametrize("size", [SMALL_BYTES, EAGER_BYTES])
def test_parcels_that_are_too_large_are_refused(
    own: Parcels, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    own.exchange(Stamp(7, 0, b"s" * 16), {1: sent(size)}, {})
    monkeypatch.setattr(parcels, "SMALL_BYTES" if size == SMALL_BYTES else "EAGER_BYTES", 9)
    own.poll()
    assert own.failure is not None
    assert own.failure.startswith("a parcel must have at most 9 bytes, got")


@pytest.mark.parametrize("is_silent", [False, True])
def test_what_is_under_way_with_a_lost_rank_is_kept(
    own: Parcels, wire: Wire, is_silent: bool
) -> None:
    """MPI may use its memory for ever."""
    delivery = own.exchange(Stamp(7, 0, b"s" * 16), {1: sent(LARGE)}, {})
    assert not delivery.may_abandon(is_lost=False)
    wire.is_broken = not is_silent
    assert not delivery.is_done()
    assert own.failure == (None if is_silent else "rank 1 has ended")
    assert delivery.may_abandon(is_lost=is_silent)
    assert own.kept == [delivery]
