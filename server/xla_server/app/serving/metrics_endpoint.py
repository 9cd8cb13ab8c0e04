"""The HTTP endpoint that Prometheus reads metrics from."""

import contextlib
import functools
import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler

from xla_server.execution.start_thread import start_thread
from xla_server.rpc.listeners import CannotListenError
from xla_server.sessions.transfers.ring_upload import shutdown_socket

_LOG = logging.getLogger(__name__)

_REQUEST_SECONDS = 5.0
"""Longest time of a request, as others wait for it; then its connection is cut off."""

_POLL_SECONDS = 0.1
"""Longest time until the end of the server is noticed."""


class _Server(socketserver.TCPServer):
    """A server that answers one request after the other; `http.server.HTTPServer` asks DNS."""

    allow_reuse_address = True
    _request: socket.socket | None = None
    _is_over = False

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer a request, unless it takes too long."""
        # Before the check, so that `shutdown` sees a request which does not see the end.
        self._request = request
        timer = threading.Timer(_REQUEST_SECONDS, shutdown_socket, [request])
        timer.daemon = True
        timer.start()
        try:
            if not self._is_over:
                super().finish_request(request, client_address)
        finally:
            timer.cancel()

    def shutdown(self) -> None:
        """Stop serving, in the middle of a request too."""
        self._is_over = True
        if self._request is not None:
            shutdown_socket(self._request)
        super().shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log why a request has no answer, such as a client that left."""
        _LOG.warning("a request for metrics failed: %s", sys.exception())


@contextlib.contextmanager
def metrics_endpoint(address: str, registry: CollectorRegistry) -> Iterator[str]:
    """Serve metrics at HOST:PORT, if there is one, for the block; gives it with its port.

    GET of any path returns them. Raises CannotListenError, and as `start_thread`.
    """
    if not address:
        yield ""
        return
    host, _, port = address.rpartition(":")
    _Server.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = _Server((host.strip("[]"), int(port)), MetricsHandler.factory(registry))
    except OSError as error:
        raise CannotListenError(f"cannot listen on {address}: {error.strerror}") from None
    with server:
        start_thread(functools.partial(server.serve_forever, _POLL_SECONDS), "metrics")
        try:
            yield f"{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
