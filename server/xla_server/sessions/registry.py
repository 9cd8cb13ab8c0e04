"""Which session a call belongs to, and when a session ends.

A session with a token is attached while its client holds a stream of it open, a default session
while its connection is there. What is neither attached nor in a call for the grace period ends.
"""

import contextlib
import dataclasses
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnauthenticatedError,
)
from xla_server.sessions.engine import Engine
from xla_server.sessions.service import XlaService

_TOKEN_BYTES = 32
_TOKEN_LENGTH = 43
"""Characters of so many bytes in base 64."""
_TOKEN = re.compile(f"[A-Za-z0-9_-]{{{_TOKEN_LENGTH}}}")


@dataclasses.dataclass(slots=True, eq=False)
class Session:
    """A session and who uses it. Its counts are the registry's to change."""

    service: XlaService
    token: str = ""
    peer: str = ""
    """The connection, of a default session."""
    users: int = 0
    """Calls in progress, streams among them."""
    attached: int = 0
    """Streams that say that the client is there."""
    left_at: float = 0.0
    """When it was last seen in use."""
    connection: str = ""
    """What a client with a token is there by while it has no stream, for the server ended that."""


class SessionRegistry:
    """The sessions of one server. Any thread may call any method."""

    def __init__(
        self,
        engine: Engine,
        *,
        grace_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.grace_seconds = grace_seconds
        self._clock = clock
        self._by_token: dict[str, Session] = {}
        self._by_peer: dict[str, Session] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._by_token) + len(self._by_peer)

    def open(self, resume_token: str = "") -> Session:
        """A new session, or the one of a token.

        Raises InvalidArgumentError for what cannot be a token, NotFoundError when no live session
        has the token, ResourceExhaustedError when there are too many. The token is a secret, and
        not in the messages.
        """
        if resume_token and not _TOKEN.fullmatch(resume_token):
            raise InvalidArgumentError(
                f"resume_token must be {_TOKEN_LENGTH} characters of A-Z, a-z, 0-9, - and _, as "
                f"OpenSession gave it, got {len(resume_token)} characters that are none"
            )
        with self._lock:
            if resume_token:
                found = self._by_token.get(resume_token)
                if found is None:
                    raise NotFoundError(
                        "resume_token must be that of a live session, got one that has ended or "
                        "never was",
                        hint="Open a session without resume_token and make everything anew: a "
                        f"session is kept for {self.grace_seconds:g} s after its client has gone.",
                    )
                found.left_at = self._clock()
                return found
            self._check_room()
            session = Session(XlaService(self.engine), token=secrets.token_urlsafe(_TOKEN_BYTES))
            session.left_at = self._clock()
            self._by_token[session.token] = session
            return session

    def has(self, token: str) -> bool:
        """Whether a live session has a token."""
        # One step, so no lock.
        return token in self._by_token

    @contextlib.contextmanager
    def using(self, token: str | None, peer: str) -> Iterator[Session]:
        """The session of a call, by its token or else its connection, in use until the block ends.

        Raises UnauthenticatedError for a token of no live session, ResourceExhaustedError when a
        default session would be one too many.
        """
        session = self.enter(token, peer)
        try:
            yield session
        finally:
            self.leave(session)

    def enter(self, token: str | None, peer: str) -> Session:
        """As `using`, until `leave`."""
        with self._lock:
            if token is None:
                session = self._by_peer.get(peer)
                if session is None:
                    self._check_room()
                    session = self._by_peer[peer] = Session(XlaService(self.engine), peer=peer)
            else:
                known = self._by_token.get(token)
                if known is None:
                    raise UnauthenticatedError(
                        "xla-session must be the token of a live session, got one that has ended "
                        "or never was",
                        hint="Open a session with OpenSession.",
                    )
                session = known
            session.users += 1
            return session

    def leave(self, session: Session) -> None:
        """End a use that `enter` began."""
        with self._lock:
            session.users -= 1
            session.left_at = self._clock()

    def keep(self, session: Session, connection: str) -> None:
        """Say that the client of a token is there as long as its connection, or until `attached`.

        For clients whose stream the server ends, which may learn of it late.
        """
        with self._lock:
            if session.token:
                session.connection = connection

    @contextlib.contextmanager
    def attached(self, session: Session) -> Iterator[None]:
        """Say that the client is there as long as the block."""
        with self._lock:
            session.attached += 1
            session.connection = ""
        try:
            yield
        finally:
            with self._lock:
                session.attached -= 1
                session.left_at = self._clock()

    def of(self, service: XlaService) -> Session:
        """The session a service is of; UnauthenticatedError when that has ended."""
        with self._lock:
            for session in self._all():
                if session.service is service:
                    return session
        raise UnauthenticatedError("the session must be live, got one that has ended")

    def close(self, session: Session) -> None:
        """End a session at once; FailedPreconditionError for a default one."""
        if not session.token:
            raise FailedPreconditionError(
                "only a session with a token can be closed, got the default session of a "
                "connection, which ends with it"
            )
        with self._lock:
            self._by_token.pop(session.token, None)
        session.service.close()

    def expire(self, is_connected: Callable[[str], bool]) -> int:
        """End the sessions whose clients have been gone for the grace period; gives how many.

        In the others what is kept for a while only, such as uploads that broke off, is dropped.
        `is_connected` says whether the connection of a default session is there, or one that a
        session was told to be kept by.
        """
        now = self._clock()
        with self._lock:
            asked = [
                (session, peer)
                for session in self._all()
                if (peer := session.peer or session.connection) and not session.users
            ]
        # Asked without the lock: it may ask the system.
        alive = [(session, peer) for session, peer in asked if is_connected(peer)]
        with self._lock:
            for session, peer in alive:
                if peer in (session.peer, session.connection):
                    session.left_at = now
            ended = [session for session in self._all() if self._is_over(session, now)]
            for session in ended:
                self._by_token.pop(session.token, None)
                self._by_peer.pop(session.peer, None)
            living = self._all()
        for session in ended:
            session.service.close()
        for session in living:
            session.service.expire()
        return len(ended)

    def close_all(self) -> None:
        """End all sessions."""
        with self._lock:
            sessions = self._all()
            self._by_token.clear()
            self._by_peer.clear()
        for session in sessions:
            session.service.close()

    def _all(self) -> list[Session]:
        return [*self._by_token.values(), *self._by_peer.values()]

    def _is_over(self, session: Session, now: float) -> bool:
        unused = not session.users and not session.attached
        return unused and now - session.left_at >= self.grace_seconds

    def _check_room(self) -> None:
        limit = self.engine.limits.max_sessions
        if len(self) >= limit:
            raise ResourceExhaustedError(
                f"the server keeps at most {limit} sessions, got one more with {len(self)} there"
            )
