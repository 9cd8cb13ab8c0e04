"""The HTTP endpoint that Prometheus reads metrics from."""

import contextlib
import http.server
import socket
import socketserver
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from xla_server.execution.start_thread import start_thread
from xla_server.rpc.listeners import CannotListenError


def _unlogged(*_: Any, **__: Any) -> None:
    """Write nothing; socketserver and http.server write lines that are no JSON."""


class _Server(socketserver.TCPServer):
    """A server that answers one request after the other; `http.server.HTTPServer` asks DNS."""

    allow_reuse_address = True
    text: Callable[[], str]
    handle_error = _unlogged


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers `GET /metrics`; any other path is 404."""

    timeout: ClassVar[float] = 5.0
    server: _Server
    log_message = _unlogged

    def do_GET(self) -> None:
        """Send the metrics."""
        if self.path != "/metrics":
            self.send_error(404, explain="Metrics are at /metrics.")
            return
        body = self.server.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def metrics_endpoint(address: str, text: Callable[[], str]) -> Iterator[str]:
    """Serve `text()` at HOST:PORT, if there is one, for the block; gives it with its port.

    Raises CannotListenError, and as `start_thread`.
    """
    if not address:
        yield ""
        return
    host, _, port = address.rpartition(":")
    _Server.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = _Server((host.strip("[]"), int(port)), _Handler)
    except OSError as error:
        raise CannotListenError(f"cannot listen on {address}: {error.strerror}") from None
    server.text = text
    with server:
        start_thread(server.serve_forever, "metrics")
        try:
            yield f"{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
