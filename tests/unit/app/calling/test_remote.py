"""Errors of a server as commands report them."""

import socket
import threading
import time
from types import SimpleNamespace

import pytest
from grpc import StatusCode
from typer.testing import CliRunner

from xla_contract.errors import NotFoundError, SessionEndedError, UnauthenticatedError, XlaError
from xla_server.app.calling.remote import _error_of
from xla_server.app.commands import app
from xla_server.rpc.errors import status_of


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (NotFoundError("none", hint="Look elsewhere."), "Look elsewhere."),
        (UnauthenticatedError("none", hint="Use connect(token=...)."), "Give --token-file, or "),
        (SessionEndedError("ended", hint="Open a session."), "Open a session."),
    ],
)
def test_hints_are_the_servers_but_for_credentials(error: XlaError, hint: str) -> None:
    status = status_of(error)
    call = SimpleNamespace(
        code=lambda: status.code,
        details=lambda: status.details,
        trailing_metadata=lambda: status.trailing_metadata,
    )
    found = _error_of(call, "Execute", "here:1")
    assert found.code is error.code
    assert found.hint.startswith(hint)


@pytest.mark.parametrize(
    ("cause", "hint"),
    [
        ("Socket closed", "If the server has TLS, give --fingerprint"),
        ("routines:CERTIFICATE_VERIFY_FAILED: self signed", "Give --ca-file"),
        ("Connection refused", ""),
    ],
)
def test_a_call_without_a_connection_names_the_flags_of_tls(cause: str, hint: str) -> None:
    unavailable = StatusCode.UNAVAILABLE
    call = SimpleNamespace(
        code=lambda: unavailable, details=lambda: cause, trailing_metadata=lambda: None
    )
    found = _error_of(call, "Execute", "here:1")
    assert found.message == f"no server answers at here:1: {cause}"
    assert found.hint.startswith(hint)
    assert bool(found.hint) is bool(hint)


def test_health_names_the_flags_of_tls() -> None:
    def closes() -> None:
        while True:
            try:
                listening.accept()[0].close()
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = threading.Thread(target=closes)
        accepting.start()
        target = f"127.0.0.1:{listening.getsockname()[1]}"
        ended = CliRunner().invoke(app, ["health", "--target", target])
        listening.shutdown(socket.SHUT_RDWR)
    accepting.join()
    assert ended.exit_code == 1
    assert "give --fingerprint, --ca-file or --tls.)" in ended.output


def test_the_timeout_of_health_bounds_fetching_a_pinned_certificate() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        command = ["health", "--target", target, "--fingerprint", f"sha256:{'0' * 64}"]
        begun = time.monotonic()
        ended = CliRunner().invoke(app, [*command, "--timeout", "0.1"])
        seconds = time.monotonic() - begun
    assert ended.exit_code == 1
    assert "got no certificate" in ended.output
    # Without an answer a certificate is fetched for 10 seconds by default.
    assert seconds < 9
