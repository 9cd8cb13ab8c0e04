"""Table of sessions: the session of each call, and the end of sessions.

A session with a token is attached while its client holds a stream of it open; one that is neither
attached nor in a call for the grace period ends. A call without a token has the default session of
its connection, which ends with it, as a connection never has another client.
"""

import contextlib
import dataclasses
import itertools
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
    SessionEndedError,
    UnauthenticatedError,
)
from xla_server.sessions.limits.shares.caller import LOCAL, Caller
from xla_server.sessions.limits.shares.caller_shares import Level, SharedLimit, levels
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import SharedResources

_TOKEN_BYTES = 32
_TOKEN_LENGTH = 43
"""Random bytes of a session's token, and their length in base 64, in characters."""
IDLE_SECONDS = 10.0
"""Seconds for which an empty session that no stream holds must be unused to be evicted for a new
one. On a busy machine a client takes some of them from opening its session to its first call."""
_TOKEN = re.compile(f"[A-Za-z0-9_-]{{{_TOKEN_LENGTH}}}")


@dataclasses.dataclass(slots=True, eq=False)
class SessionEntry:
    """A session and its users. Only the registry changes the counts."""

    service: Session
    caller: Caller
    """The caller that opened it. Callers of another principal may not use it."""
    token: str = ""
    """Empty for a default session."""
    is_temporary: bool = False
    """True for the session of one call, of a connection that cannot be identified."""
    users: int = 0
    """Calls in progress, streams among them."""
    attached: int = 0
    """Number of open streams that show that the client is connected."""
    last_used_at: float = 0.0
    """Time at which it was last seen in use."""
    has_been_used: bool = False
    """True once a call named it."""
    has_been_attached: bool = False
    """True once such a stream was open."""
    kept_by: str = ""
    """Connection or address: while it lasts, the client counts as attached without a stream."""

    @property
    def connection(self) -> str:
        """The connection of a default session, or the one over which a session was opened."""
        return self.caller.connection

    @property
    def is_idle(self) -> bool:
        """True if no caller uses the session and it is empty."""
        return not self.users and not self.attached and self.service.is_empty


class SessionRegistry:
    """The sessions of one server. Thread-safe."""

    def __init__(
        self,
        engine: SharedResources,
        *,
        grace_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.grace_seconds = grace_seconds
        self.instance = secrets.token_hex(8)
        """Random id of this server's process, by which clients detect a restart."""
        self._clock = clock
        self._by_token: dict[str, SessionEntry] = {}
        self._by_connection: dict[str, SessionEntry] = {}
        self._use = SharedLimit(engine.limits.max_sessions, engine.limits.shares)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._use.used

    def all(self) -> list[SessionEntry]:
        """Return all sessions."""
        with self._lock:
            return self._all()

    def idle_seconds(self, session: SessionEntry) -> float:
        """Return for how long a session has been unused; 0 while a client uses it."""
        is_used = session.users or session.attached
        return 0.0 if is_used else max(0.0, self._clock() - session.last_used_at)

    def open(self, resume_token: str = "", caller: Caller = LOCAL) -> SessionEntry:
        """Open a session, or resume the one of a token.

        Raises InvalidArgumentError for a malformed token, NotFoundError when no live session of the
        caller's has the token, ResourceExhaustedError when there are too many. The token is a
        secret, and not in the messages.
        """
        if resume_token and not _TOKEN.fullmatch(resume_token):
            raise InvalidArgumentError(
                f"resume_token must be {_TOKEN_LENGTH} characters of A-Z, a-z, 0-9, - and _, as "
                f"OpenSession gave it, got {len(resume_token)} characters that are none"
            )
        with self._lock:
            if resume_token:
                found = self._by_token.get(resume_token)
                # A caller must not learn that another caller's session exists.
                if found is None or found.caller.principal != caller.principal:
                    raise NotFoundError(
                        "resume_token must be that of a live session, got one that has ended or "
                        "never was",
                        hint="Open a session without resume_token and make everything anew: a "
                        f"session is kept for {self.grace_seconds:g} s after its client has gone.",
                    )
                found.last_used_at = self._clock()
                found.has_been_used = True
                return found
            ended = self._evict_idle(caller)
            session = self._new(caller, secrets.token_urlsafe(_TOKEN_BYTES))
            self._by_token[session.token] = session
        _close(ended)
        return session

    def account_of(self, token: str) -> Caller | None:
        """Return the caller whose resources the live session of a token uses; None without one."""
        # One step, so no lock.
        session = self._by_token.get(token)
        return None if session is None else session.service.caller

    def keeps_results(self, token: str | None) -> bool:
        """Return whether the session of a token, or without one any default session, has results.

        They are those of launched executions, as `Session.has_results`.
        """
        with self._lock:
            named = None if token is None else self._by_token.get(token)
            sessions = list(self._by_connection.values()) if token is None else [named]
        return any(each is not None and each.service.has_results for each in sessions)

    def unfetched(self) -> list[SessionEntry]:
        """Return the sessions with results of launched executions that no client has fetched."""
        return [each for each in self.all() if each.service.data.unfetched]

    @contextlib.contextmanager
    def using(
        self, token: str | None, caller: Caller | None, *, is_stateless: bool = False
    ) -> Iterator[SessionEntry]:
        """Use the session of a call, by its token or else its connection, until the block ends.

        Args:
            token: The session's token in the call, if any.
            caller: The identity; None if the token alone is enough.
            is_stateless: True for a call that needs no state: it gets a temporary session if it
                names none and its connection cannot be identified.

        Raises UnauthenticatedError for a token of no live session of the caller's, and for a call
        without one whose connection cannot be identified; ResourceExhaustedError when a default
        session would be one too many.
        """
        session = self.enter(token, caller, is_stateless=is_stateless)
        try:
            yield session
        finally:
            self.leave(session)

    def enter(
        self, token: str | None, caller: Caller | None, *, is_stateless: bool = False
    ) -> SessionEntry:
        """Begin a use as `using`, until `leave`."""
        ended: SessionEntry | None = None
        with self._lock:
            if token is not None:
                session = self._named(token, caller)
            else:
                session, ended = self._default(LOCAL if caller is None else caller, is_stateless)
            session.users += 1
            session.has_been_used = True
        _close(ended)
        return session

    def _named(self, token: str, caller: Caller | None) -> SessionEntry:
        """Return the session of a token. Under the lock."""
        session = self._by_token.get(token)
        is_own = caller is None or session is None or session.caller.principal == caller.principal
        if session is None or not is_own:
            raise SessionEndedError(
                "xla-session must be the token of a live session, got one that has ended "
                "or never was",
                hint="Open a session with OpenSession.",
            )
        return session

    def _default(
        self, caller: Caller, is_stateless: bool
    ) -> tuple[SessionEntry, SessionEntry | None]:
        """Return the session of a connection, and the one that is evicted for it.

        Called with the lock held.
        """
        connection = caller.connection
        if not connection:
            if is_stateless:
                return SessionEntry(Session(self.engine, caller), caller, is_temporary=True), None
            raise UnauthenticatedError(
                "a call that names no session must come over a connection that the server can tell "
                "from all others, got one over a unix socket or from an address with several",
                hint="Open a session with OpenSession and send its token as xla-session.",
            )
        session = self._by_connection.get(connection)
        if session is not None and session.caller.principal != caller.principal:
            raise UnauthenticatedError(
                "the calls of a connection that name no session must all have the identity of the "
                "first, got one of another",
                hint="Open a session with OpenSession and send its token as xla-session.",
            )
        ended: SessionEntry | None = None
        if session is None:
            ended = self._evict_idle(caller)
            session = self._by_connection[connection] = self._new(caller)
        return session, ended

    def _new(self, caller: Caller, token: str = "") -> SessionEntry:
        """Return a new session, counted for its caller from now on. Under the lock."""
        # Sessions of unidentified connections do not share a connection's limits.
        name = caller.connection or f"session {next(self._numbers)}"
        account = dataclasses.replace(caller, connection=name)
        session = SessionEntry(Session(self.engine, account), caller, token)
        session.last_used_at = self._clock()
        self._use.add(caller, 1)
        return session

    def leave(self, session: SessionEntry) -> None:
        """End a use that `enter` began."""
        with self._lock:
            session.users -= 1
            session.last_used_at = self._clock()
        if session.is_temporary:
            session.service.close()

    def keep(self, session: SessionEntry, connection: str) -> None:
        """Count the client of a token as attached while its connection lasts, or until `attached`.

        For clients whose stream the server ends, which may learn of it late.
        """
        with self._lock:
            if session.token:
                session.kept_by = connection

    @contextlib.contextmanager
    def attached(self, session: SessionEntry) -> Iterator[None]:
        """Count the client as attached for the block."""
        with self._lock:
            session.attached += 1
            session.has_been_attached = True
            session.kept_by = ""
        try:
            yield
        finally:
            with self._lock:
                session.attached -= 1
                session.last_used_at = self._clock()

    def of(self, service: Session) -> SessionEntry:
        """The entry of a session; UnauthenticatedError if it has ended."""
        with self._lock:
            for session in self._all():
                if session.service is service:
                    return session
        raise UnauthenticatedError("the session must be live, got one that has ended")

    def close(self, session: SessionEntry) -> None:
        """End a session at once; FailedPreconditionError for a default one."""
        if not session.token:
            raise FailedPreconditionError(
                "only a session with a token can be closed, got the default session of a "
                "connection, which ends with it"
            )
        with self._lock:
            self._forget(session)
        session.service.close()

    def expire(self, is_connected: Callable[[str], bool]) -> int:
        """End the sessions whose clients have disconnected; return how many.

        Those with a token end after the grace period, default ones and those that no call ever
        named as soon as the connection has gone. In the others state with a timeout, such as
        interrupted uploads, is dropped. `is_connected` returns whether a connection, or another
        reason to keep its session, exists.
        """
        now = self._clock()
        with self._lock:
            kept = [(each, each.kept_by) for each in self._by_token.values() if each.kept_by]
            default = list(self._by_connection.items())
            unused = [each for each in self._by_token.values() if not each.has_been_used]
        # Without the lock, as it may take a while; after the listing, as a connection absent now
        # never comes back.
        kept = [(session, name) for session, name in kept if is_connected(name)]
        gone = [session for name, session in default if not is_connected(name)]
        unused = [each for each in unused if each.connection and not is_connected(each.connection)]
        with self._lock:
            for session, name in kept:
                if session.kept_by == name:
                    session.last_used_at = now
            ended = [
                each
                for each in self._by_token.values()
                if not (each.users or each.attached)
                and now - each.last_used_at >= self.grace_seconds
            ]
            ended += [each for each in gone if not each.users]
            ended += [each for each in unused if not each.has_been_used]
            ended = [each for each in ended if self._forget(each)]
            living = self._all()
        for session in ended:
            session.service.close()
        for session in living:
            session.service.uploads.expire()
        return len(ended)

    def close_all(self) -> None:
        """End all sessions."""
        with self._lock:
            sessions = self._all()
            for session in sessions:
                self._forget(session)
        for session in sessions:
            session.service.close()

    def _all(self) -> list[SessionEntry]:
        return [*self._by_token.values(), *self._by_connection.values()]

    def _forget(self, session: SessionEntry) -> bool:
        """Remove a session; False if it was removed before. Under the lock."""
        if session.token:
            is_there = self._by_token.pop(session.token, None) is not None
        else:
            is_there = self._by_connection.pop(session.connection, None) is not None
        if is_there:
            self._use.add(session.caller, -1)
        return is_there

    def _evict_idle(self, caller: Caller) -> SessionEntry | None:
        """Return an idle session that was evicted for a new one, if the registry was full.

        Called with the lock held. Raises ResourceExhaustedError when there are too many, for the
        caller or in total, and none is idle.
        """
        used, limit = self._use.used, self._use.limit
        level = self._use.exceeded(caller, 1)
        if level is None and used < limit:
            return None
        idle = self._idle_of(level)
        if idle is not None:
            self._forget(idle)
            return idle
        hint = (
            "Close sessions that are no longer needed. An empty one that is unused for "
            f"{IDLE_SECONDS:g} s ends for one more."
        )
        if level is not None:
            raise self._use.refusal(level, 1, "sessions", hint)
        raise ResourceExhaustedError(
            f"the server keeps at most {limit} sessions, got one more with {used} there", hint=hint
        )

    def _idle_of(self, level: Level | None) -> SessionEntry | None:
        """Return the idle session to end: the longest unused one of the caller that has the most.

        With `level`, a session of that level.
        """
        unused_since = self._clock() - IDLE_SECONDS
        idle = [
            session
            for session in self._by_token.values()
            if session.is_idle
            and session.last_used_at <= unused_since
            and (level is None or level in levels(session.caller))
        ]

        def order(session: SessionEntry) -> tuple[int, int, float]:
            identity, *rest = [self._use.used_by(each) for each in levels(session.caller)]
            return -identity, -sum(rest), session.last_used_at

        return min(idle, key=order, default=None)


def _close(session: SessionEntry | None) -> None:
    """Close a session that was removed. The lock must not be held."""
    if session is not None:
        session.service.close()
