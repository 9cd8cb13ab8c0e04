"""Chunked transfers whose connection is cut, over real processes."""

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess, serving, start_server
from tests.fault.plain import has_drained, until
from tests.fault.proxy import Proxy
from tests.fault.rounds import chosen, rounds
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

ARRAY = np.random.default_rng(0).integers(0, 2**31, 6 << 20).astype(np.int32)
MEBIBYTE = 1 << 20
CUTS = [100, 3 * MEBIBYTE, ARRAY.nbytes - 8 * MEBIBYTE]
"""After how many bytes connections are cut."""


server = serving()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[xc.Client]:
    with xc.connect(proxy.address, shared_memory=False) as connected:
        yield connected


@pytest.fixture
def live_bytes(server: ServerProcess) -> Iterator[Callable[[], int]]:
    """The bytes of all sessions on the devices, queried without the proxy."""
    with xc.connect(server.address, shared_memory=False) as connected:
        yield lambda: _live_bytes(connected)


def _live_bytes(client: xc.Client) -> int:
    answer = client._session.call("DescribeSession", extension_pb2.DescribeSessionRequest())
    return int(answer.server_device_bytes)


@pytest.mark.parametrize("after", CUTS)
def test_an_upload_that_is_cut_goes_on_where_it_was(proxy, client, live_bytes, after):
    before = live_bytes()
    for number in rounds():
        connections, sent = proxy.connections, proxy.to_server
        proxy.cut_at(chosen(number, after, 1, CUTS[-1]))
        buffer = client.to_device(ARRAY)
        assert proxy.connections > connections
        # Only the chunks on their way were sent once more.
        assert proxy.to_server - sent < ARRAY.nbytes * 1.6
        assert live_bytes() - before == ARRAY.nbytes
        assert np.array_equal(buffer.to_numpy(), ARRAY)
        buffer.delete()
        assert live_bytes() == before


def test_an_upload_may_be_cut_many_times(proxy, client):
    cuts = 0

    def cut_now_and_then(done: int, _: int) -> None:
        nonlocal cuts
        if done // (4 * MEBIBYTE) > cuts:
            cuts += 1
            proxy.cut()

    buffer = client.to_device(ARRAY, progress=cut_now_and_then)
    assert cuts >= 4
    assert np.array_equal(buffer.to_numpy(), ARRAY)


def test_an_upload_that_is_cut_before_its_answer_is_not_made_twice(proxy, client, live_bytes):
    before = live_bytes()

    def cut_at_the_end(done: int, of: int) -> None:
        if done == of and proxy.connections == 1:
            proxy.cut()

    buffer = client.to_device(ARRAY, progress=cut_at_the_end)
    assert proxy.connections > 1
    assert live_bytes() - before == ARRAY.nbytes
    assert np.array_equal(buffer.to_numpy(), ARRAY)


@pytest.mark.parametrize("after", CUTS)
def test_a_download_that_is_cut_goes_on_where_it_was(proxy, client, after):
    buffer = client.to_device(ARRAY)
    for number in rounds():
        connections, before = proxy.connections, proxy.to_client
        proxy.cut_at(chosen(number, after, 1, CUTS[-1]), towards="client")
        assert np.array_equal(buffer.to_numpy(), ARRAY)
        assert proxy.connections > connections
        assert proxy.to_client - before < ARRAY.nbytes * 1.6


def test_a_slow_reader_gets_everything_and_delays_no_other(proxy, client, live_bytes):
    buffer = client.to_device(ARRAY)
    is_paused = threading.Event()

    def pause_once(done: int, _: int) -> None:
        if not is_paused.is_set():
            proxy.pause()
            is_paused.set()

    fetched: list[np.ndarray] = []
    reader = threading.Thread(
        target=lambda: fetched.append(buffer.to_numpy(progress=pause_once)), daemon=True
    )
    reader.start()
    assert is_paused.wait(100)
    # Calls of others are answered while this one waits.
    for _ in range(20):
        live_bytes()
    assert not fetched
    proxy.resume()
    reader.join(100)
    assert np.array_equal(fetched[0], ARRAY)


def test_a_client_that_is_gone_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("xla_client.transfers.chunked.TRIES", 1)
    flags = ("--platform", "interpreter", "--session-grace-seconds", "0.5")
    with (
        start_server(tmp_path, *flags) as running,
        Proxy(running.address) as proxy,
        xc.connect(running.address, shared_memory=False) as beside,
    ):
        client = xc.connect(proxy.address, shared_memory=False)
        arrived: list[int] = []

        def cut_for_good(done: int, _: int) -> None:
            if done == 8 * MEBIBYTE:
                until(lambda: _live_bytes(beside) > 0)
                arrived.append(_live_bytes(beside))
                proxy.cut(refuse=True)

        with pytest.raises(xc.UnavailableError):
            client.to_device(ARRAY, progress=cut_for_good)
        # The bytes that had arrived are freed with the grace period.
        assert 0 < arrived[0] < ARRAY.nbytes
        until(lambda: _live_bytes(beside) == 0)
        client.close()


def test_a_server_that_is_gone_ends_the_transfer(tmp_path, monkeypatch):
    monkeypatch.setattr("xla_client.transfers.chunked.TRIES", 2)
    with start_server(tmp_path, "--platform", "interpreter") as running:
        client = xc.connect(running.address, shared_memory=False)

        def kill(done: int, _: int) -> None:
            if done == 8 * MEBIBYTE:
                running.process.kill()

        with pytest.raises(xc.UnavailableError):
            client.to_device(ARRAY, progress=kill)
        client.close()


def test_a_server_that_stops_ends_transfers_and_goes(tmp_path, monkeypatch):
    monkeypatch.setattr("xla_client.transfers.chunked.TRIES", 1)
    flags = ("--platform", "interpreter", "--grace-seconds", "0")
    with start_server(tmp_path, *flags) as running, Proxy(running.address) as proxy:
        client = xc.connect(proxy.address, shared_memory=False)

        def stop(done: int, _: int) -> None:
            if done == 8 * MEBIBYTE:
                proxy.pause()
                running.process.terminate()
                threading.Timer(0.5, proxy.resume).start()

        with pytest.raises(xc.UnavailableError):
            client.to_device(ARRAY, progress=stop)
        client.close()
        has_drained(running)
