"""Errors of a server as commands report them."""

from types import SimpleNamespace

import pytest

from xla_contract.errors import NotFoundError, SessionEndedError, UnauthenticatedError, XlaError
from xla_server.app.calling.remote import _error_of
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
