"""Connections that are cut while values stream in and out: every value passes once, in order."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, relay, sink, source
from tests.e2e.process import serving
from tests.fault.plain import token_of, until
from tests.fault.proxy import Proxy
from tests.fault.rounds import chosen, rounds
from xla_client.transport.transport import Transport

VECTOR = xc.Shape.parse("f32[256]")


server = serving("--feed-items", "16")


@pytest.fixture
def client(proxy: Proxy) -> Iterator[xc.Client]:
    with xc.connect(proxy.address, timeout=30) as client:
        yield client


@contextlib.contextmanager
def _companion(address: str, client: xc.Client) -> Iterator[xc.Client]:
    """A client of the same session over a whole connection of its own."""
    transport = Transport(address, credentials=None, metadata=(), timeout=30)
    transport.open(10, token_of(client))
    try:
        yield xc.Client(transport)
    finally:
        transport.close()


def _vector(number: int) -> np.ndarray:
    return np.full(256, number, np.float32)


def _cut_thrice(proxy: Proxy, every: int, towards: str) -> None:
    def cut() -> None:
        for _ in range(3):
            proxy.cut_after(every, towards=towards).join()

    threading.Thread(target=cut, daemon=True).start()


@pytest.mark.parametrize("towards", ["server", "client"])
def test_every_value_passes_once_however_often_the_connection_is_cut(
    address, proxy, client, towards
):
    """The program is run by a client of its own with a whole connection, in the same session."""
    for number in rounds():
        every = chosen(number, 60_000, 9_000, 60_000)
        _relay_values(address, proxy, client, towards, every, first=300 * number)


def _relay_values(address, proxy, client, towards, every, first):
    count, connections = 300, proxy.connections
    with _companion(address, client) as whole:
        run = whole.compile(relay(count, VECTOR)).submit()
        _cut_thrice(proxy, every, towards)

        def feed() -> None:
            with client.device().infeed(VECTOR) as infeed:
                infeed.send(_vector(n) for n in range(count))

        with ThreadPoolExecutor(1) as executor:
            feeding = executor.submit(feed)
            received = list(client.device().outfeed(VECTOR, count))
            feeding.result(60)
        assert proxy.connections > connections + 1
        assert [value[0] for value in received] == list(range(count))
        assert run.result().to_numpy() == count
        states = whole.device().feeds()
        assert (states.infeed.items, states.outfeed.items) == (0, 0)
        assert (states.infeed.sequence, states.outfeed.sequence) == (first + count,) * 2


@pytest.mark.parametrize("towards", ["server", "client"])
def test_streams_that_are_cut_while_they_begin_begin_again(address, proxy, client, towards):
    """In the headers, in the start and its answer, in the first items."""
    with _companion(address, client) as whole:
        numbers = iter(range(1 << 20))
        cuts = (chosen(n, cut, 10, 1000) for n in rounds() for cut in (20, 90, 150, 1000))
        for byte_count in cuts:
            run = whole.compile(relay(4)).submit()
            sent = [next(numbers) for _ in range(4)]
            proxy.cut_at(byte_count, towards=towards)
            with client.device().infeed(COUNT) as infeed:
                infeed.send(sent)
            proxy.cut_at(byte_count, towards=towards)
            with client.device().outfeed(COUNT, 4) as values:
                assert [int(value) for value in values] == sent
            run.result()
        states = whole.device().feeds()
        assert (states.infeed.items, states.outfeed.items) == (0, 0)


def test_what_was_received_and_not_reported_is_not_sent_twice(address, proxy, client):
    feed = client.device().infeed(COUNT)
    feed.put(0)
    feed.flush()
    # The server's answer about the next values does not come back.
    proxy.pause("client")
    feed.put(1)
    with _companion(address, client) as whole:
        until(lambda: whole.device().feeds().infeed.items == 2)
        proxy.cut()
        proxy.resume()
        feed.put(2)
        feed.close()
        whole.compile(relay(3)).submit()
        assert [int(value) for value in whole.device().outfeed(COUNT, 3)] == [0, 1, 2]


def test_a_refusal_that_was_lost_is_reported_again(proxy, client):
    feed = client.device().infeed(VECTOR)
    feed.put(_vector(0))
    feed.flush()
    feed._shape = None
    feed.put(np.int32(1))
    with pytest.raises(xc.InvalidArgumentError):
        feed.flush()
    proxy.cut()
    # It is sent once more on the new connection, and raised no second time.
    feed.put(_vector(2))
    feed.close()
    assert client.device().feeds().infeed.items == 2


def test_a_reader_that_is_cut_gets_what_it_has_not_seen(address, proxy, client):
    with _companion(address, client) as whole:
        run = whole.compile(source(40)).submit()
        values = client.device().outfeed(COUNT, prefetch=8)
        received = [int(next(values)) for _ in range(5)]
        proxy.cut()
        received += [int(next(values)) for _ in range(35)]
        assert received == list(range(40))
        run.result()
        values.close()
        assert whole.device().feeds().outfeed.items == 0


def test_a_server_that_does_not_come_back_is_given_up(monkeypatch, proxy, client):
    monkeypatch.setattr("xla_client.feeds.resumable_stream.RECONNECT_SECONDS", 0.5)
    feed = client.device().infeed(COUNT)
    feed.put(0)
    feed.flush()
    proxy.cut(refuse=True)
    feed.put(1)
    with pytest.raises(xc.UnavailableError):
        feed.flush()


def test_waiting_stops_when_the_client_closes(client):
    values = client.device().outfeed(COUNT)
    errors: list[BaseException] = []

    def read() -> None:
        try:
            next(values)
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: client.device().feeds().outfeed.is_streaming)
    client.close()
    reader.join(100)
    assert not reader.is_alive()
    assert len(errors) == 1


def test_a_killed_client_leaves_its_feeds_to_the_client_that_resumes(address, client):
    """The stream ends with its client; what it sent stays, and numbers go on."""
    code = (
        "import signal, sys, numpy as np, xla_client as xc\n"
        "from xla_client.transport.transport import Transport\n"
        "transport = Transport(sys.argv[1], credentials=None, metadata=(), timeout=None)\n"
        "transport.open(10, sys.argv[2])\n"
        "client = xc.Client(transport)\n"
        "feed = client.device().infeed()\n"
        "feed.send(np.int32([[1], [2]]))\n"
        "feed.flush()\n"
        "print('sent', flush=True)\n"
        "signal.pause()\n"
    )
    command = [sys.executable, "-c", code, address, token_of(client)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sent\n"
        assert client.device().feeds().infeed.is_streaming
        process.kill()
    until(lambda: not client.device().feeds().infeed.is_streaming)
    state = client.device().feeds().infeed
    assert (state.items, state.sequence) == (2, 2)
    with client.device().infeed() as feed:
        feed.put(np.int32([3]))
    client.compile(sink(3, xc.Shape.parse("s32[1]"))).run()


def test_a_paused_reader_holds_up_neither_server_nor_others(address, proxy, client):
    with _companion(address, client) as whole:
        values = client.device().outfeed(VECTOR, prefetch=8)
        client.device().feeds()
        proxy.pause()
        run = whole.compile(relay(16, VECTOR)).submit()
        with whole.device().infeed(VECTOR) as feed:
            feed.send(_vector(n) for n in range(16))
        # All are in the queue of 16, sent or not: the program is done.
        run.result()
        proxy.resume()
        assert [value[0] for value in (next(values) for _ in range(16))] == list(range(16))
        values.close()
