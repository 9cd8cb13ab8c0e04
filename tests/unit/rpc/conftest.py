"""Sessions without a server, which leave nothing behind."""

from collections.abc import Iterator

import pytest

from tests.unit.sessions.engines import shared_resources
from xla_server.sessions.session import Session
from xla_server.sessions.session_registry import SessionRegistry


@pytest.fixture
def service() -> Iterator[Session]:
    """One session."""
    made = Session(shared_resources())
    yield made
    made.close()
    assert made.engine.memory.used_bytes == 0


@pytest.fixture
def sessions() -> Iterator[SessionRegistry]:
    """A registry for sessions."""
    made = SessionRegistry(shared_resources())
    yield made
    made.close_all()
