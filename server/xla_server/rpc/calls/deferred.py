"""Unary rpcs that may wait, without holding a thread.

On the wire a unary call and one that streams a single response are the same, so these rpcs are
registered as the latter: grpc then lets the behaviour return before the response.
"""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeAlias

import grpc

from xla_contract.descriptors import Rpc
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.boundary import Boundary, Decode
from xla_server.rpc.calls.completion import SendResponse, answer_call, at_end, end_call
from xla_server.rpc.calls.response_memory import (
    LARGE_BYTES,
    Response,
    discard,
    reservation_of,
)
from xla_server.rpc.metadata import session_token
from xla_server.rpc.threads.request_threads import RequestThreadPool
from xla_server.sessions.session import Session

_LOG = logging.getLogger(__name__)

DeferredMethod: TypeAlias = Callable[[Session, Any, Cancellation, "Responder"], None]
"""Begins a call, whose response follows later. Raises XlaError if it cannot begin."""


@dataclasses.dataclass(eq=False)
class Responder:
    """The response of one call, which any thread may send.

    Only the first one is sent; `finish` returns whether it was the first. If sending may wait for a
    client that does not read, only `thread` and those of `executor` send.
    """

    finish: Callable[[Callable[[], Response]], bool]
    executor: ThreadPoolExecutor
    thread: int | None = None

    def done(self, response: Response) -> None:
        """Send a successful response. It may wait for the sending thread."""
        self._send(self._finish_or_discard, response)

    def failed(self, error: BaseException) -> None:
        """Answer with an error. May wait as `done` does."""
        self._send(self.finish, raising(error))

    def later(self, make_response: Callable[[], Response]) -> None:
        """Respond with the result or error of `make_response`, in a thread of the rpc's pool.

        For callers that must not wait, such as callbacks of queues and cancellations.
        """
        # The threads are closed only with the server, when no client is left.
        with contextlib.suppress(RuntimeError):
            self.executor.submit(self.finish, make_response)

    def _send(self, send: Callable[[Any], object], what: object) -> None:
        if self.thread in (None, threading.get_ident()):
            send(what)
        else:
            with contextlib.suppress(RuntimeError):  # As in `later`.
                self.executor.submit(send, what)

    def _finish_or_discard(self, response: Response) -> None:
        if not self.finish(lambda: response):
            discard(response)


def raising(error: BaseException) -> Callable[[], Response]:
    """Return a function that raises `error`, where one is expected to make a response."""

    def fail() -> Response:
        raise error

    return fail


@dataclasses.dataclass(eq=False)
class DeferredHandler:
    """One unary rpc that waits without a thread."""

    experimental_non_blocking: ClassVar[bool] = True
    """Read by grpc: the behaviour gets the callback that sends responses."""

    rpc: Rpc
    method: DeferredMethod
    boundary: Boundary
    experimental_thread_pool: RequestThreadPool
    """Read by grpc."""
    is_stateless: bool = False
    decode: Decode | None = None

    def __call__(
        self, request: bytes, context: grpc.ServicerContext, send_response_callback: SendResponse
    ) -> None:
        """Begin one call; any exception becomes a status."""
        boundary, rpc = self.boundary, self.rpc
        started = time.monotonic()
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("called", extra={"rpc": rpc.name, "peer": context.peer()})
        uses = contextlib.ExitStack()
        ending = threading.Lock()
        service: Session | None = None

        def finish(make_response: Callable[[], Response]) -> bool:
            if not ending.acquire(blocking=False):
                return False
            status, data = None, b""
            try:
                response = make_response()
                data = boundary.serialize(rpc, response)
                if len(data) >= LARGE_BYTES and service is not None:
                    at_end(
                        context,
                        reservation_of(service.response_memory, response, len(data)).release,
                    )
                boundary.metrics.ended(rpc, started)
            except BaseException as error:
                # The boundary, as in Handler: for any exception the client gets a status of ours.
                status = boundary.status(rpc, error, context.peer(), started)
            uses.close()
            # Before the response, as its client may then call again.
            self.experimental_thread_pool.leave(context)
            if status is None:
                answer_call(context, send_response_callback, data)
            else:
                end_call(context, send_response_callback, status)
            return True

        answer = Responder(finish, self.experimental_thread_pool)
        try:
            token = session_token(context.invocation_metadata())
            caller = boundary.callers.of(context, rpc.path, with_connection=token is None)
            session = uses.enter_context(
                boundary.sessions.using(token, caller, is_stateless=self.is_stateless)
            )
            cancellation = uses.enter_context(boundary.calls.running(context))
            boundary.calls.note_answer(cancellation, answer.failed)
            service = session.service
            uses.enter_context(service.calling(cancellation))
            parsed = boundary.parse(rpc, request, self.decode)
            self.method(service, parsed, cancellation, answer)
        except BaseException as error:  # The boundary: `finish` makes a status of it.
            answer.failed(error)
