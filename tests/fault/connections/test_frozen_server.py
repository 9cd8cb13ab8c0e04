"""A server that says nothing any more, though its system keeps the connection: it is noticed."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, sink
from tests.e2e.process import ServerProcess, serving
from tests.fault.plain import until
from tests.unit.sessions.sample_runs import DOUBLE, program
from xla_client.transport import transport as _transport
from xla_client.transport.transport import Transport, keepalive_options

ONES = np.ones(4, np.float32)
QUIET, TIMEOUT = 2.0, 3.0
LONGEST = 20.0
"""Far below the 30 s after which a server would be pinged by default."""


server = serving()


@contextlib.contextmanager
def _client(address: str) -> Iterator[xc.Client]:
    keepalive = QUIET, TIMEOUT
    transport = Transport(address, credentials=None, metadata=(), timeout=None, keepalive=keepalive)
    transport.open(10)
    try:
        yield xc.Client(transport)
    finally:
        transport.close()


def _freeze(server: ServerProcess) -> None:
    """Stop all threads of a server where they are; its sockets stay."""
    process = psutil.Process(server.process.pid)
    process.suspend()
    states = {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
    until(lambda: all(psutil.Process(each.id).status() in states for each in process.threads()))


def _is_answered(client: xc.Client) -> bool:
    """Return whether calls go over a new connection."""
    try:
        client.device().feeds()
    except xc.UnavailableError:
        return False
    return True


def test_channels_ask_by_default_whether_the_server_is_there(monkeypatch: Any) -> None:
    options: list[Any] = []
    make = _transport.grpc.insecure_channel

    def noted(target: str, options_given: Any = None, **named: Any) -> Any:
        options.extend(named.get("options", options_given))
        return make(target, **named)

    monkeypatch.setattr(_transport.grpc, "insecure_channel", noted)
    Transport("127.0.0.1:1", credentials=None, metadata=(), timeout=None).close()
    requested = dict(options)
    assert requested["grpc.keepalive_time_ms"] == 30_000
    assert requested["grpc.keepalive_timeout_ms"] == 10_000
    assert requested["grpc.http2.ping_timeout_ms"] == 40_000
    # Without this a channel sends two pings and no more while streams are silent.
    assert requested["grpc.http2.max_pings_without_data"] == 0
    # The server sends clients away that ask more often than each 5 s.
    assert dict(keepalive_options(*_transport.KEEPALIVE_SECONDS)).items() <= requested.items()


def test_a_server_that_freezes_while_streams_are_silent_is_noticed(server: ServerProcess) -> None:
    with _client(server.address) as client:
        running = client.compile(sink(1)).submit().future()
        until(lambda: client.device().feeds().infeed.waiters)
        _freeze(server)
        with pytest.raises(xc.UnavailableError):
            running.result(LONGEST)
        server.process.send_signal(signal.SIGCONT)


def test_who_waits_for_a_frozen_server_is_notified(server: ServerProcess) -> None:
    with _client(server.address) as client:
        held, double = client.to_device(ONES), client.compile(program(DOUBLE))
        running = client.compile(sink(1)).submit().future()
        values = client.device().outfeed(COUNT)
        outcomes: dict[str, BaseException] = {}

        def waiting(name: str, call: Any) -> threading.Thread:
            def wait() -> None:
                try:
                    call()
                except BaseException as error:
                    outcomes[name] = error

            thread = threading.Thread(target=wait, daemon=True)
            thread.start()
            return thread

        _freeze(server)
        threads = [
            waiting("on the stream", lambda: double(held)),
            waiting("a call", lambda: running.result(60)),
        ]
        for thread in threads:
            thread.join(LONGEST)
        assert not any(thread.is_alive() for thread in threads)
        assert [type(outcomes[name]) for name in ("on the stream", "a call")] == [
            xc.UnavailableError
        ] * 2
        # It was asleep, not dead: the session is there, and feeds go on by themselves.
        server.process.send_signal(signal.SIGCONT)
        until(lambda: _is_answered(client))
        np.testing.assert_array_equal(held.to_numpy(timeout=30), ONES)
        np.testing.assert_array_equal(double.run(held, timeout=30), 2 * ONES)
        values.close()
