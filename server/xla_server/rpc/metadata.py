"""The metadata of calls by which clients name their sessions."""

from collections.abc import Sequence
from typing import Any

from xla_contract.errors import InvalidArgumentError

SESSION_KEY = "xla-session"
"""The metadata key of a session's token."""

Metadata = Sequence[tuple[str, str | bytes]]


def session_token(metadata: Metadata | None) -> str | None:
    """Return the session that the headers of a call name, if any.

    Raises InvalidArgumentError when they name more than one.
    """
    tokens = [value for key, value in metadata or () if key == SESSION_KEY]
    if len(tokens) > 1:
        raise InvalidArgumentError(f"a call must name one session, got {len(tokens)}")
    token = tokens[0] if tokens else None
    return token.decode(errors="replace") if isinstance(token, bytes) else token


def has_session(event: Any) -> bool:
    """Return whether the headers of a call, in grpc's event of its arrival, name a session."""
    return any(key == SESSION_KEY for key, _ in event.invocation_metadata or ())
