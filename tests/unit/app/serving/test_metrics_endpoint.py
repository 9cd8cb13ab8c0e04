"""The endpoint of metrics: clients that are slow, and a registry that fails."""

import contextlib
import socket
import threading
import time
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tests.fault.plain import until
from xla_server.app.serving import metrics_endpoint as endpoint


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 10)


def test_a_client_that_sends_no_whole_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_REQUEST_SECONDS", 0.1)
    registry = CollectorRegistry()
    Gauge("level", "A number", registry=registry).set(7)
    with (
        endpoint.metrics_endpoint("127.0.0.1:0", registry) as address,
        connected(address) as slow,
    ):
        slow.sendall(b"GET /met")
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            assert b"level 7.0" in answer.read()
        assert slow.recv(1) == b""


def test_the_end_waits_for_no_client() -> None:
    with contextlib.ExitStack() as clients:
        with endpoint.metrics_endpoint("127.0.0.1:0", CollectorRegistry()) as address:
            for _ in range(2):
                clients.enter_context(connected(address))
            until(lambda: any(isinstance(each, threading.Timer) for each in threading.enumerate()))
            started = time.monotonic()
        assert time.monotonic() - started < endpoint._REQUEST_SECONDS / 2


def test_metrics_that_cannot_be_collected_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Collector):
        def collect(self) -> list[Metric]:
            raise ArithmeticError("no number")

    registry = CollectorRegistry()
    registry.register(Broken())
    with (
        endpoint.metrics_endpoint("127.0.0.1:0", registry) as address,
        connected(address) as client,
    ):
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(1) == b""
    assert caplog.messages == ["a request for metrics failed: no number"]
