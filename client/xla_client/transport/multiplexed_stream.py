"""Unary calls on one long-lived stream, which costs less than a call each.

The stream also keeps the session attached.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from xla_contract.errors import NotBegunError, UnavailableError, XlaError
from xla_contract.stubs import xla_extension_pb2

_CLOSE_RETRY_SECONDS = 0.01
"""Seconds that closing waits for a call in progress before it cancels the stream; repeated until it
ends."""


class StreamBrokenError(Exception):
    """The stream ended before it brought the answer of a call, which the server may have made."""


class MessageStream(Protocol):
    """A stream, one message there and one back, for one thread at a time except `cancel`."""

    @property
    def is_active(self) -> bool:
        """True unless the stream is known to have ended."""

    def send(self, message: bytes) -> None:
        """Send a message; raises the error the stream has ended with."""

    def receive(self) -> bytes | None:
        """The server's next message, None at the stream's good end; raises XlaError."""

    def cancel(self) -> None:
        """Give the stream up; any thread may."""

    def close(self) -> None:
        """Cancel the stream and release its resources; no effect when it has ended."""


class MultiplexedStream:
    """A stream for one call at a time; during a call other threads make ordinary calls."""

    def __init__(self, begin: Callable[[], MessageStream]) -> None:
        self._begin = begin
        self._stream: MessageStream | None = None
        self._number = 0
        self._using = threading.Lock()
        self._is_closed = False

    def open(self) -> None:
        """Begin the stream, without waiting for the server."""
        with self._using:
            self._open()

    def call(self, path: str, request: bytes) -> xla_extension_pb2.ConverseResponse | None:
        """Make a call and wait for the answer; None if the stream is in use or unavailable.

        The server has not begun the call if the result is None. Raises StreamBrokenError if the
        stream ended instead of an answer.
        """
        if not self._using.acquire(blocking=False):
            return None
        try:
            stream = self._open()
            return None if stream is None else self._call(stream, path, request)
        finally:
            self._using.release()

    def close(self) -> None:
        """End the stream; a call in progress is cut off."""
        self._is_closed = True
        while not self._using.acquire(timeout=_CLOSE_RETRY_SECONDS):
            # A thread inside a call sees its end, and leaves.
            stream = self._stream
            if stream is not None:
                stream.cancel()
        try:
            self._end()
        finally:
            self._using.release()

    def _open(self) -> MessageStream | None:
        if self._stream is None or not self._stream.is_active:
            self._end()
            if not self._is_closed:
                self._stream = self._begin()
        return self._stream

    def _end(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _call(
        self, stream: MessageStream, path: str, request: bytes
    ) -> xla_extension_pb2.ConverseResponse | None:
        self._number += 1
        message = xla_extension_pb2.ConverseRequest(id=self._number, method=path, request=request)
        answer: xla_extension_pb2.ConverseResponse | None = None
        try:
            try:
                stream.send(message.SerializeToString())
            except XlaError:
                return None
            try:
                data = stream.receive()
            except NotBegunError:
                return None
            except XlaError as error:
                raise StreamBrokenError from error
            if data is not None:
                answer = xla_extension_pb2.ConverseResponse.FromString(data)
        finally:
            if answer is None:
                # Cancelling makes the server stop the call, also after Ctrl-C, so that its answer
                # is not taken for that of the next.
                self._end()
        if answer is None:
            raise StreamBrokenError from UnavailableError("Converse: the server ended the stream")
        return answer
