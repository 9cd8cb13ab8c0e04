"""Unary calls on one long-lived stream, which costs less than a call each.

The stream is also how the server knows that the client is there.
"""

import threading
from collections.abc import Callable

from xla_client._stream import ClientStream
from xla_contract.errors import UnavailableError, XlaError
from xla_contract.stubs import xla_extension_pb2


class BrokenOffError(Exception):
    """The stream ended before it brought the answer of a call, which the server may have made."""


class Conversation:
    """One call at a time; who comes while there is one makes an ordinary call."""

    def __init__(self, begin: Callable[[], ClientStream]) -> None:
        self._begin = begin
        self._stream: ClientStream | None = None
        self._number = 0
        self._using = threading.Lock()
        self._is_closed = False

    def open(self) -> None:
        """Begin the stream, without waiting for the server."""
        with self._using:
            self._open()

    def call(self, path: str, request: bytes) -> xla_extension_pb2.ConverseResponse | None:
        """Make a call and wait for the answer; None when the stream is in use or not to be had.

        Nothing was sent then. Raises BrokenOffError when the stream ended instead of an answer.
        """
        if not self._using.acquire(blocking=False):
            return None
        try:
            stream = self._open()
            if stream is None:
                return None
            self._number += 1
            message = xla_extension_pb2.ConverseRequest(
                id=self._number, method=path, request=request
            )
            try:
                stream.send(message.SerializeToString())
            except XlaError:
                self._stream = None
                return None
            return self._answer(stream)
        finally:
            self._using.release()

    def close(self) -> None:
        """End the stream; a call in progress breaks off."""
        self._is_closed = True
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def _open(self) -> ClientStream | None:
        if self._stream is None or not self._stream.is_active:
            self._stream = None
            if not self._is_closed:
                self._stream = self._begin()
        return self._stream

    def _answer(self, stream: ClientStream) -> xla_extension_pb2.ConverseResponse:
        answer: xla_extension_pb2.ConverseResponse | None = None
        try:
            answer = stream.receive()
        except XlaError as error:
            raise BrokenOffError from error
        finally:
            if answer is None:
                # Whatever ended the wait, Ctrl-C maybe: the server then stops the call.
                self._stream = None
                stream.cancel()
        if answer is None:
            raise BrokenOffError from UnavailableError("Converse: the server ended the stream")
        return answer
