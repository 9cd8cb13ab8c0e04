"""The HTTP endpoint that Prometheus reads metrics from."""

import contextlib
import logging
import socket
import socketserver
import sys
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler

from xla_server.execution.start_thread import start_thread
from xla_server.rpc.listeners import CannotListenError

_LOG = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 5.0
"""Longest wait for the next bytes of a request; one that waits holds up others."""


class _Server(socketserver.TCPServer):
    """A server that answers one request after the other; `http.server.HTTPServer` asks DNS."""

    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log why a request has no answer, such as a client that left."""
        _LOG.warning("a request for metrics failed: %s", sys.exception())


@contextlib.contextmanager
def metrics_endpoint(address: str, registry: CollectorRegistry) -> Iterator[str]:
    """Serve metrics at HOST:PORT, if there is one, for the block; gives it with its port.

    Raises CannotListenError, and as `start_thread`.
    """
    if not address:
        yield ""
        return

    class Handler(MetricsHandler):
        """Answers GET of any path."""

        timeout = _TIMEOUT_SECONDS

    Handler.registry = registry
    host, _, port = address.rpartition(":")
    _Server.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = _Server((host.strip("[]"), int(port)), Handler)
    except OSError as error:
        raise CannotListenError(f"cannot listen on {address}: {error.strerror}") from None
    with server:
        start_thread(server.serve_forever, "metrics")
        try:
            yield f"{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
