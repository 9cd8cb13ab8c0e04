"""One end of a feed stream that reconnects by itself."""

import abc
import threading
import time
from typing import Any, Self

from xla_client.feeds.condition import NotifyingLock
from xla_client.session.public_methods import public, public_coroutine
from xla_client.session.session import Session
from xla_client.transport.stream import ClientStream
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    SessionEndedError,
    UnavailableError,
    XlaError,
)

RECONNECT_SECONDS = 30.0
"""Seconds of reconnecting before UnavailableError."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between attempts to connect; each pause is twice the one before."""
END_SECONDS = 5.0
"""Seconds that `close` waits for the end of a stream."""


class FeedBlock(abc.ABC):
    """A feed as `with` and `async with` use it."""

    _session: Session

    @public
    def _call(self, name: str, request: Any, timeout: float | None) -> Any:
        """Make a call of the device's queues; raises XlaError."""
        return self._session.call(name, request, timeout)

    @public_coroutine
    async def _acall(self, name: str, request: Any, timeout: float | None) -> Any:
        """Make a call as `_call` does, without blocking the event loop."""
        return await self._session.acall(name, request, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._leave(has_failed=kind is not None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._aleave(has_failed=kind is not None)

    @abc.abstractmethod
    def _leave(self, *, has_failed: bool) -> None:
        """Leave the feed at the end of a block, which may have failed."""

    @abc.abstractmethod
    async def _aleave(self, *, has_failed: bool) -> None:
        """Coroutine of `_leave`."""


class ResumableStream(abc.ABC):
    """A stream of a session that outlives its connections: one thread receives, another sends.

    The lock `changes` guards its attributes.
    """

    def __init__(self, session: Session, rpc: str) -> None:
        self.session = session
        self.changes = NotifyingLock()
        self.error: XlaError | None = None
        """The error that ended the stream."""
        self.is_closing = False
        """True if only the end of the stream is still to be received."""
        self.is_over = False
        self.wake_at: float | None = None
        """Time at which `next_message` is called again without a change."""
        self._rpc = rpc
        self._generation = session.generation
        self._has_begun = False
        """True once the server has answered on any connection of this stream."""
        self._stream: ClientStream | None = None
        """The stream for sending, once the server has answered."""
        self._serving: ClientStream | None = None
        """The call of the current connection, or of the last one."""
        self._half_closed: ClientStream | None = None
        self._has_served = False
        self._threads: tuple[threading.Thread, ...] = ()
        session.feeds.add(self)

    # For derived classes to define ----------------------------------------------------------

    @abc.abstractmethod
    def start_request(self) -> Any:
        """The first request of a connection. Called with `changes` held."""

    @abc.abstractmethod
    def receive_response(self, response: Any) -> None:
        """Handle a response, the first of a connection included; raises XlaError to end the stream.

        Called with `changes` held.
        """

    @abc.abstractmethod
    def next_message(self) -> Any:
        """The next message to send, or None. Called with `changes` held, when connected."""

    # For derived classes and their callers --------------------------------------------------

    def begin(self) -> None:
        """Connect, in the background."""
        self._threads = tuple(
            threading.Thread(target=work, name=f"xla-{self._rpc.lower()}", daemon=True)
            for work in (self._receive, self._send)
        )
        for thread in self._threads:
            thread.start()

    @property
    def state(self) -> str:
        """Return a phrase that says whether the stream is connected."""
        if self.error is not None:
            return f"failed: {self.error}"
        if self.is_over:
            return "closed"
        return "connected" if self.is_connected else "connecting"

    @property
    def is_connected(self) -> bool:
        """True if there is a stream for sending."""
        return self._stream is not None

    def check(self) -> None:
        """Raise the error that ended the stream, if any. Called with `changes` held."""
        if self.error is not None:
            raise self.error
        if self.is_over:
            raise CancelledError(f"{self._rpc}: the feed must be open to be used, got a closed one")

    def close(self) -> None:
        """Send the remaining messages and end the stream; waits at most END_SECONDS for that."""
        with self.changes:
            self.is_closing = True
            self.changes.notify()
            # The garbage collector may call this in one of the stream's own threads.
            if threading.current_thread() not in self._threads:
                self.changes.wait_for(lambda: self.is_over, END_SECONDS)
        self.abandon()

    def abandon(self) -> None:
        """End the stream at once, in any state; no effect when it has ended."""
        with self.changes:
            self.is_over = True
            self._stream = None
            serving = self._serving
            self.changes.notify()
        if serving is not None:
            serving.cancel()

    def leave_to_parent(self) -> None:
        """End the object in a forked child, which does not have its threads.

        It takes no lock: a thread of the parent may hold it.
        """
        self.changes = NotifyingLock()
        self.error = UnavailableError(
            f"{self._rpc}: the feed must be of this process, got that of the process this one was "
            "forked from: connect again",
            op=self._rpc,
        )
        self._stream = self._serving = None
        self.is_closing = self.is_over = True

    def late(self, what: str, timeout: float | None) -> DeadlineExceededError:
        """Return the error of a wait that reached its timeout; `what` names it."""
        return DeadlineExceededError(
            f"{self._rpc}: {what} within the time given, got none in {timeout} s", op=self._rpc
        )

    def _receive(self) -> None:
        pause = FIRST_PAUSE
        lost_at: float | None = None
        while True:
            try:
                self._serve()
            # A local end sets `is_over` first, so this cancellation comes from a server that is
            # stopping.
            except (UnavailableError, CancelledError) as error:
                now = time.monotonic()
                with self.changes:
                    self._stream = None
                    is_first = self._has_served or lost_at is None
                    self._has_served = False
                    lost_at = now if is_first or lost_at is None else lost_at
                    pause = FIRST_PAUSE if is_first else min(2 * pause, LONGEST_PAUSE)
                    is_lost = now - lost_at > RECONNECT_SECONDS or self.session.transport.closed
                    if is_lost or self.is_over:
                        self._end(error)
                        return
                    self.changes.wait_for(lambda: self.is_over, pause)
            except SessionEndedError as error:
                try:
                    self.session.renew(self._generation, error)
                except XlaError as still:
                    self._end(still)
                    return
            except XlaError as error:
                self._end(error)
                return
            else:
                self._end(None)
                return

    def _serve(self) -> None:
        """Serve one connection to its regular end; raises XlaError."""
        with self.changes:
            if self.is_over:
                return
            generation = self.session.generation
            if self._generation is not generation and self._has_begun:
                raise self.session.lost("a feed").at(self._rpc)
            self._generation = generation
            request = self.start_request()
        stream = self.session.transport.stream(self._rpc, session=generation)
        try:
            with self.changes:
                # Ending the feed cancels the call from here on.
                self._serving = stream
                if self.is_over:
                    return
            stream.send(request)
            while (response := stream.receive()) is not None:
                with self.changes:
                    if not self.is_over:
                        self.receive_response(response)
                    # The response may have ended the feed: the garbage collector runs in any
                    # thread.
                    if self.is_over:
                        return
                    self._has_served = self._has_begun = True
                    self._stream = stream
                    self.changes.notify()
        finally:
            # If handling a response failed, the server does not know: cancel, so that it stops
            # sending.
            stream.cancel()

    def _end(self, error: XlaError | None) -> None:
        with self.changes:
            if error is not None and not self.is_over:
                self.error = error
            self.is_over = True
            self._stream = None
            self.changes.notify()

    def _send(self) -> None:
        while True:
            message: Any = None

            def is_ready() -> bool:
                nonlocal message
                if self._stream is not None and message is None:
                    self.wake_at = None
                    message = self.next_message()
                return message is not None or self.is_over or self._may_half_close()

            with self.changes:
                while not is_ready():
                    pause = None if self.wake_at is None else self.wake_at - time.monotonic()
                    self.changes.wait(pause)
                stream = self._stream
                if self.is_over:
                    return
                if message is None:
                    self._half_closed = stream
            if stream is None:
                continue
            if message is None:
                stream.half_close()
                continue
            try:
                stream.send(message)
            except XlaError:
                # The receiving thread gets the same error and connects again.
                with self.changes:
                    if self._stream is stream:
                        self._stream = None

    def _may_half_close(self) -> bool:
        stream = self._stream
        return self.is_closing and stream is not None and stream is not self._half_closed
