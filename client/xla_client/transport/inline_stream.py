"""A stream that one thread at a time uses, for one message there and one back.

grpc's own streams send in one thread and receive in another, so each exchange wakes two threads
more than a unary call, and costs as much. The calls that unary calls are made of need no threads,
but grpc has no public interface for streams of this kind. This module uses the private one;
`open_inline_stream` returns None if that is not as expected, and a slower `ClientStream` is used
instead.
"""

import atexit
import importlib
import os
import time
from collections.abc import Callable
from typing import Any

import grpc

from xla_client.transport.signal_guard import DeferredInterrupt
from xla_contract.errors import CancelledError, XlaError

_PAUSE = 0.002
"""Seconds of silence after which the stream is checked for its end before it is used."""

_GIVEN_UP = "the client gave the stream up"

AsException = Callable[[str, Any], XlaError]
"""Makes an error from the name of an rpc and a call that has ended."""


class InlineStream:
    """The messages of one call. Not thread-safe, except `cancel`.

    It must be closed: grpc waits for the end of such calls before a channel closes. Ctrl-C cancels
    the call, and is raised when grpc's locks are free again.
    """

    def __init__(
        self, name: str, channel: grpc.Channel, method: Any, metadata: Any, exception: AsException
    ) -> None:
        cygrpc: Any = importlib.import_module("grpc._cython.cygrpc")
        self._name = name
        # A channel that was collected would wait for the call.
        self._channel = channel
        self._exception = exception
        self._grpc = cygrpc
        self._status: _Ended | None = None
        self._is_given_up = False
        self._process = os.getpid()
        self._asked_at = time.monotonic()
        operations = (
            (
                cygrpc.SendInitialMetadataOperation(metadata, 0),
                cygrpc.ReceiveInitialMetadataOperation(0),
            ),
            (cygrpc.ReceiveStatusOnClientOperation(0),),
        )
        self._call = method._channel.segregated_call(
            cygrpc.PropagationConstants.GRPC_PROPAGATE_DEFAULTS,
            method._method,
            None,
            None,
            metadata,
            None,
            tuple((batch, None) for batch in operations),
            method._context,
            method._registered_call_handle,
        )
        self._due = len(operations)
        """Batches of operations that have not ended."""
        _OPEN.add(self)

    @property
    def is_active(self) -> bool:
        """True unless the call is known to have ended."""
        if self._is_given_up:
            return False
        if self._status is None and time.monotonic() - self._asked_at >= _PAUSE:
            # Earlier events come before the end of a batch without operations.
            with DeferredInterrupt(self.cancel):
                if self._operate((), self):
                    while self._next().tag is not self:
                        pass
            self._asked_at = time.monotonic()
        return self._status is None

    def send(self, message: bytes) -> None:
        """Send a message, to be followed by `receive`; raises the error the call has ended with."""
        cygrpc = self._grpc
        operations = (cygrpc.SendMessageOperation(message, 0), cygrpc.ReceiveMessageOperation(0))
        with DeferredInterrupt(self.cancel):
            if self._status is not None or not self._operate(operations, None):
                raise self._error()

    def receive(self) -> bytes | None:
        """Return the answer to the message sent, None after a successful end; raises XlaError."""
        with DeferredInterrupt(self.cancel):
            return self._received()

    def cancel(self) -> None:
        """Give the call up; any thread may."""
        self._is_given_up = True
        self._call.cancel(self._grpc.StatusCode.cancelled, _GIVEN_UP)

    def close(self) -> None:
        """Cancel the call and wait for its end, which is immediate; no effect when it has ended."""
        # No part of a call continues in a forked child.
        if self._due and os.getpid() == self._process:
            with DeferredInterrupt(self.cancel):
                self.cancel()
                self._drain()

    def _received(self) -> bytes | None:
        kind = self._grpc.OperationType.receive_message
        while self._due:
            for operation in self._next().batch_operations:
                if operation.type() == kind:
                    message: bytes | None = operation.message()
                    if message is None:
                        self._drain()
                        break
                    self._asked_at = time.monotonic()
                    return message
        if self._status is not None and self._status.code() is grpc.StatusCode.OK:
            return None
        raise self._error()

    def _error(self) -> XlaError:
        if self._status is None or self._status.code() is grpc.StatusCode.OK:
            return CancelledError(f"{self._name}: the call must go on to be used, got its end")
        return self._exception(self._name, self._status)

    def _drain(self) -> None:
        while self._due:
            self._next()

    def _operate(self, operations: tuple[Any, ...], tag: object) -> bool:
        """Start a batch of operations; return False if the call has ended."""
        try:
            if not self._call.operate(operations, tag):
                return False
            self._due += 1
        except BaseException:  # An exception of a signal handler: see `_interrupt`.
            self._interrupt()
            raise
        return True

    def _interrupt(self) -> None:
        """Cancel the call without waiting for its end.

        After an exception of a signal handler the number of outstanding events is unknown: grpc has
        freed the call if it was waiting, and an event may be lost on the way from it to here. A
        thread that waited for another event might wait forever.
        """
        self.cancel()
        self._due = 0
        _OPEN.discard(self)

    def _next(self) -> Any:
        """Wait for the end of a batch."""
        try:
            event = self._call.next_event()
            self._due -= 1
        except BaseException:  # An exception of a signal handler: see `_interrupt`.
            self._interrupt()
            raise
        for operation in event.batch_operations:
            if operation.type() == self._grpc.OperationType.receive_status_on_client:
                self._status = _Ended(operation)
        if not self._due:
            _OPEN.discard(self)
        return event


class _Ended:
    """The end of a call, in the form of grpc's own calls."""

    def __init__(self, operation: Any) -> None:
        self._operation = operation

    def code(self) -> grpc.StatusCode:
        """The code of the status."""
        number = self._operation.code()
        return next(each for each in grpc.StatusCode if each.value[0] == number)

    def details(self) -> str:
        """The message of the status."""
        details = self._operation.details()
        return details.decode(errors="replace") if isinstance(details, bytes) else details

    def trailing_metadata(self) -> Any:
        """The metadata that came with the status."""
        return self._operation.trailing_metadata()


_OPEN: set[InlineStream] = set()


@atexit.register
def _close_open_streams() -> None:
    """Release channels that were not closed."""
    for stream in list(_OPEN):
        stream.close()


def open_inline_stream(
    name: str, channel: grpc.Channel, path: str, metadata: Any, exception: AsException
) -> InlineStream | None:
    """Begin a bidirectional stream, without waiting for the server.

    Returns None if grpc's private interface is not the one that InlineStream uses.
    """
    method: Any = channel.stream_stream(path)
    try:
        return InlineStream(name, channel, method, metadata, exception)
    except (AttributeError, ImportError, TypeError):
        return None
