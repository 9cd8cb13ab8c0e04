"""Errors of a server as commands report them."""

import socket
import time
from types import SimpleNamespace

import pytest
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
