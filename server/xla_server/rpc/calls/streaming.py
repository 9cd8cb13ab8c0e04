"""Streaming rpcs: each has a thread of its own, which may wait for the client's next message."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import grpc

from xla_contract.descriptors import Rpc
from xla_contract.errors import CancelledError, InvalidArgumentError
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.boundary import Boundary
from xla_server.rpc.calls.completion import SendResponse, at_end, end_call
from xla_server.rpc.calls.response_memory import Response
from xla_server.rpc.limits.idle_streams import IdleTimer, never_idle
from xla_server.rpc.metadata import session_token
from xla_server.rpc.peers.leases import Lease
from xla_server.rpc.threads.pools import Pool, Pools
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.session_registry import SessionEntry

StreamMethod: TypeAlias = Callable[[SessionEntry, "Stream", Cancellation], None]
"""Serves one stream until it ends; raises XlaError."""


@dataclasses.dataclass(eq=False)
class Stream:
    """The messages of one call, both ways. One thread receives, any thread sends."""

    _rpc: Rpc
    _boundary: Boundary
    _requests: Iterator[bytes]
    _context: grpc.ServicerContext
    _send: SendResponse
    _cancellation: Cancellation
    silence: IdleTimer
    caller: Caller
    lease: Lease
    _sending: threading.Lock = dataclasses.field(default_factory=threading.Lock, init=False)
    """grpc takes one message at a time."""
    _first: bytes | None = dataclasses.field(default=None, init=False)

    def require_first(self) -> None:
        """Wait for the first message, which `receive` returns then.

        If a connection is cut inside a call's headers, grpc makes a call with the headers received
        so far. All headers precede the first message, so after it a call without a token names no
        session. Raises InvalidArgumentError without a message, and the errors of `receive`.
        """
        self._first = self.receive_bytes()
        if self._first is None:
            raise InvalidArgumentError(
                f"{self._rpc.name}: a stream must begin with a message, or name its session, got "
                "its end"
            )

    def serves_others(self, is_idle: Callable[[], bool]) -> None:
        """Let a draining server end the stream if only such streams are left, all of them idle."""
        self._boundary.calls.note_serving_others(self._cancellation, is_idle)

    def receive(self) -> Any:
        """The client's next message, None after the last.

        Raises InvalidArgumentError for bytes that are no message, and the error of the call's
        cancellation.
        """
        request = self.receive_bytes()
        return None if request is None else self.parse(request)

    def parse(self, request: bytes) -> Any:
        """A message of the client; InvalidArgumentError for malformed bytes."""
        return self._boundary.parse(self._rpc, request)

    def receive_bytes(self) -> bytes | None:
        """The client's next message, not parsed; raises as `receive` does."""
        self._cancellation.check()
        if self._first is not None:
            first, self._first = self._first, None
            return first
        self.silence.since.append(time.monotonic())
        request = None
        try:
            request = next(self._requests)
        except StopIteration:
            self._cancellation.check()
        except grpc.RpcError as error:
            # grpc stores the error with the call, to which its traceback refers: a cycle.
            error.__traceback__ = None
            self._cancellation.check()
            raise CancelledError("the client gave the call up") from None
        if not self.silence.received():
            self._refuse()
        return request

    def _refuse(self) -> None:
        """Raise the error that ends the call: the message came too late."""
        self._cancellation.wait_for(self._cancellation)

    def send(self, response: Response) -> None:
        """Send a message, waiting for flow control; raises the error of the call's cancellation."""
        data = self._boundary.serialize(self._rpc, response)
        with self._sending:
            self._cancellation.check()
            self._send(data)
        if not self._context.is_active():
            self._cancellation.check()
            raise CancelledError("the client gave the call up")


class StreamHandler:
    """One rpc that streams requests, responses or both."""

    experimental_non_blocking = True
    """Read by grpc: the behaviour gets the callback that sends responses."""

    def __init__(self, rpc: Rpc, method: StreamMethod, boundary: Boundary, pools: Pools) -> None:
        self._rpc = rpc
        self._method = method
        self._boundary = boundary
        self._pools = pools
        # The request of an rpc that streams only responses is awaited without a thread.
        self.experimental_thread_pool = pools.arrivals(
            Pool.STREAM, is_streamed=rpc.request_streaming
        )

    def __call__(
        self,
        requests: "Iterator[bytes] | bytes",
        context: grpc.ServicerContext,
        send_response_callback: SendResponse,
    ) -> None:
        """Serve one stream; any exception becomes a status."""
        boundary = self._boundary
        started = time.monotonic()
        # No longer a queued call: from here on it is counted as a stream.
        self.experimental_thread_pool.leave(context)
        ending = threading.Lock()

        def end(error: BaseException | None) -> None:
            if not ending.acquire(blocking=False):
                return
            status = None
            if error is None:
                boundary.metrics.ended(self._rpc, started)
            else:
                status = boundary.status(self._rpc, error, context.peer(), started)
            end_call(context, send_response_callback, status)

        try:
            token = session_token(context.invocation_metadata())
            caller = boundary.callers.of(context, self._rpc.path)
            with (
                # First, so that no thread waits for a stream beyond the limit.
                self._pools.streams.acquired(token or caller.connection or caller.identity, caller),
                self._pools.serving_stream(),
                boundary.calls.running(context) as cancellation,
                boundary.callers.leases.holding(context, self._rpc.path, cancellation) as lease,
            ):
                # A thread that waits for a message is woken by the end of the call.
                forget = cancellation.add_callback(lambda: end(cancellation.error))
                source = iter((requests,)) if isinstance(requests, bytes) else requests
                silence = IdleTimer(context.peer(), cancellation.cancel, context.cancel)
                silence.has_begun = isinstance(requests, bytes)
                self._note(silence, context)
                stream = Stream(
                    self._rpc,
                    boundary,
                    source,
                    context,
                    send_response_callback,
                    cancellation,
                    silence,
                    caller,
                    lease,
                )
                try:
                    if token is None:
                        stream.require_first()
                    with (
                        boundary.sessions.using(token, caller) as session,
                        session.service.calling(cancellation),
                    ):
                        self._method(session, stream, cancellation)
                        cancellation.check()
                finally:
                    forget()
                    # The callback refers to the stream, and so to the silence: a cycle, which would
                    # keep the call and unread responses until a garbage collection.
                    silence.is_idle = never_idle
        except BaseException as error:  # The boundary: `end` makes a status of it.
            end(error)
        else:
            end(None)

    def _note(self, silence: IdleTimer, context: grpc.ServicerContext) -> None:
        """Keep a timer in `silences` as long as grpc has the call and its messages."""
        silences = self._pools.silences
        silences[silence] = None
        at_end(context, lambda: silences.pop(silence, None))

    def handler(self) -> "grpc.RpcMethodHandler[Any, Any]":
        """The handler for grpc; a side that does not stream sends one message."""
        if self._rpc.request_streaming:
            return grpc.stream_stream_rpc_method_handler(self)
        return grpc.unary_stream_rpc_method_handler(self)
