"""One streaming call, both ways."""

import queue
import threading
from collections.abc import Callable
from typing import Any

import grpc

from xla_client.transport.signal_guard import DeferredInterrupt
from xla_contract.errors import CancelledError, XlaError

_WAITING = 4
"""Number of queued messages from which `send` waits."""


class ClientStream:
    """The messages of one call. One thread receives, any thread sends.

    Ctrl-C gives the call up, and is raised when grpc's locks are free again.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[[Any], Any],
        serialize: Callable[[Any], bytes],
        as_exception: Callable[[str, grpc.RpcError], XlaError],
    ) -> None:
        self._name = name
        self._serialize = serialize
        self._as_exception = as_exception
        self._outgoing = _Outgoing()
        self._call: Any = None
        try:
            with self._held_back():
                self._call = begin(self._outgoing)
                if not self._call.add_callback(self._outgoing.end):
                    self._outgoing.end()
        except BaseException:  # Ctrl-C above all: there may be a call that must be ended.
            self.cancel()
            raise

    def send(self, message: Any) -> None:
        """Send a message, or the bytes of one, waiting for flow control.

        Raises the error the call ended with, if it has ended.
        """
        data = message if isinstance(message, bytes) else self._serialize(message)
        with self._held_back():
            if not self._outgoing.put(data):
                raise self.error()

    @property
    def is_active(self) -> bool:
        """True unless the call is known to have ended."""
        return bool(self._call.is_active())

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        with self._held_back():
            self._outgoing.close()

    def receive(self) -> Any:
        """The server's next message, None at the call's good end; raises XlaError."""
        with self._held_back():
            try:
                return next(self._call)
            except StopIteration:
                return None
            except grpc.RpcError as error:
                raise self._as_exception(self._name, error) from None

    def error(self) -> XlaError:
        """Return the error that ended the call; waits for its end."""
        try:
            code = self._call.code()
        except grpc.RpcError:
            code = None
        if code is None or code is grpc.StatusCode.OK:
            return CancelledError(f"{self._name}: the call must go on to be used, got its end")
        return self._as_exception(self._name, self._call)

    def cancel(self) -> None:
        """Give the call up."""
        with self._held_back():
            self._give_up()

    def close(self) -> None:
        """Cancel the call; there is nothing else to release."""
        self.cancel()

    def _held_back(self) -> DeferredInterrupt:
        return DeferredInterrupt(self._give_up)

    def _give_up(self) -> None:
        # Ctrl-C may come before there is a call.
        if self._call is not None:
            self._call.cancel()
        self._outgoing.end()


class _Outgoing:
    """Queue of the requests to send: an iterator for grpc's thread."""

    def __init__(self) -> None:
        # None marks the end. A condition variable would cost more than all the rest of a small
        # call.
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._is_closed = False
        self._is_ended = False
        self._adding = threading.Lock()
        self._changed = threading.Condition()
        self._is_awaited = False
        """True if a thread may wait for the queue to shrink."""

    def put(self, data: bytes) -> bool:
        """Add a message once the queue is not full; False when the call has ended or was closed."""
        messages = self._messages
        while True:
            with self._adding:
                if self._is_over:
                    return False
                if messages.qsize() < _WAITING:
                    messages.put(data)
                    return True
            self._wait_for_capacity()

    def close(self) -> None:
        """End the iterator after the queued messages."""
        with self._adding:
            self._is_closed = True
            self._messages.put(None)
        self._notify_change()

    def end(self) -> None:
        """Drop the queued messages: the call has ended."""
        self._is_ended = True
        self._messages.put(None)
        self._notify_change()

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._is_ended

    def _wait_for_capacity(self) -> None:
        with self._changed:
            # Set before the queue is checked: a thread that removes a message checks the flag only
            # afterwards.
            self._is_awaited = True
            while self._messages.qsize() >= _WAITING and not self._is_over:
                self._changed.wait()
                self._is_awaited = True

    def _notify_change(self) -> None:
        with self._changed:
            self._is_awaited = False
            self._changed.notify_all()

    def __iter__(self) -> "_Outgoing":
        return self

    def __next__(self) -> bytes:
        data = self._messages.get()
        if data is None or self._is_ended:
            raise StopIteration
        if self._is_awaited:
            self._notify_change()
        return data
