"""Threads for calls with one request, taken when the request has arrived.

grpc gives a call a thread when its headers have arrived. The thread requests the message, sleeps,
and is woken when that arrives: twice the wake-ups that a small call needs, and a thread held by
each client that sends slowly. Here the message is requested first, and a thread is woken once.

grpc has no public interface for this, so the functions of its own threads are used; if grpc differs
from `grpc_internals`, calls get their threads from grpc.

Calls are also counted here, and refused beyond their limits (`limits/call_admission.py`). With
another grpc only grpc's own limit of all calls remains.
"""

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from xla_server.identity.identity import Identity
from xla_server.rpc.grpc_internals import (
    POOL_PARAMETERS,
    EndableCalls,
    end_call,
    fail_call,
    known_server,
    reject_call,
)
from xla_server.rpc.limits.call_admission import CallAdmission
from xla_server.rpc.metadata import has_session
from xla_server.rpc.peers.gate import Gate
from xla_server.rpc.threads.thread_pool import Task, ThreadPool
from xla_server.sessions.limits.shares.caller import Flow

_LOG = logging.getLogger(__name__)


class RequestThreadPool(ThreadPoolExecutor):
    """The executor of handlers for grpc.

    Calls with one request begin in `threads` when it has arrived; those that wait for a thread take
    turns. Calls with a stream of requests (`is_streamed`) begin with their first message, so that
    those which never send one take no thread; if they name a session they begin at once, as they
    keep it. This holds for handlers on bytes; other calls begin as in grpc. grpc requires a
    ThreadPoolExecutor, of which no method is used.

    A call that the gate refuses ends at once, before its request is read. Any other holds a slot of
    `admission` until it is answered. A deferred call holds it until its handler calls `leave`.
    """

    def __init__(
        self,
        threads: ThreadPool,
        expected: EndableCalls,
        admission: CallAdmission,
        *,
        is_streamed: bool = False,
        gate: Gate | None = None,
        begun: EndableCalls | None = None,
    ) -> None:
        self._taken_from = threads
        self._expected = expected.events
        self._begun = (begun or EndableCalls()).events
        self._admission = admission
        self._gate = gate
        self._is_streamed = is_streamed
        self._server = known_server()

    def submit(self, do: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Call `do` with these arguments in a thread; for a call, once its request has arrived.

        Called by grpc, which holds its lock on the call. Returns the Job. Raises RuntimeError, for
        anything but a call, after the threads were shut down.
        """
        server = self._server
        if server is not None and len(arguments) == 1 + len(POOL_PARAMETERS):
            serve, event, state, behavior, _, *transforms = arguments
            is_unary = serve is server._unary_response_in_pool
            if is_unary or serve is server._stream_response_in_pool:
                refusal = self._refusal(server, state, event)
                if refusal is not None:
                    end_call(event, state, refusal)
                    job = Task(lambda: None, ())
                    job.end()
                    return job
                if transforms == _NO_PARSING and not (self._is_streamed and has_session(event)):
                    return self._expect(do, is_unary, event, state, behavior)
                return self._begin_now(do, arguments)
        return self._taken_from.submit(do, *arguments, **named)

    def submit_for(self, flow: Flow, do: Callable[..., object], /, *arguments: Any) -> None:
        """Call `do` in a thread when it is the turn of `flow`; as `ThreadPool.submit_for`."""
        self._taken_from.submit_for(flow, do, *arguments)

    def _refusal(self, server: Any, state: Any, event: Any) -> grpc.Status | None:
        """Admit a call and take a slot for it; return the status of a refusal."""
        if self._gate is None:
            return self._admission.admit(state, event)
        context = server._Context(event, state, None)
        found = self._gate.examine(context, event.call_details.method.decode())
        if not isinstance(found, Identity):
            return found
        return self._admission.admit(state, event, found.name if found.is_authenticated else "")

    def _begin_now(self, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Task:
        """Serve a call in a thread as grpc does."""
        state = arguments[2]
        job = Task(do, arguments, self._admission.flow_of(state))
        job.add_done_callback(lambda _: self._admission.leave(state))
        self._taken_from.begin(job)
        return job

    def leave(self, context: grpc.ServicerContext) -> None:
        """Release the slot of a call that is about to be answered; no effect when repeated."""
        self._admission.leave(getattr(context, "_state", None))

    def _expect(
        self,
        do: Callable[..., Any],
        is_unary: bool,
        event: Any,
        state: Any,
        behavior: Callable[..., Any],
    ) -> Task:
        """Request the message of a call; return the job that begins when it arrives."""
        server, is_streamed = self._server, self._is_streamed
        serve: Callable[..., None] = self._answer if is_unary else self._stream
        if is_streamed and not is_unary:
            serve = self._stream_of_requests
        job = Task(do, (), self._admission.flow_of(state))
        call = event.call
        expected, leave = self._expected, self._admission.leave

        def arrived(received: Any) -> Any:
            request = received.batch_operations[0].message()
            with state.condition:
                was_refused = expected.pop(state, None) is None
                # A stream may end without a message: its handler reports that.
                is_over = request is None and (was_refused or not is_streamed)
                if request is None and not was_refused:
                    if not is_streamed:
                        reject_call(event, state)
                    elif state.client is server._OPEN:
                        state.client = server._CLOSED
                ended = server._possibly_finish_call(state, server._RECEIVE_MESSAGE_TOKEN)
            if is_over:
                leave(state)
                job.end()
            else:
                # Last: the woken thread needs a lock that this one holds until it waits again.
                job.arguments = (serve, event, state, behavior, request)
                self._begin(job, state)
            return ended

        operation = server.cygrpc.ReceiveMessageOperation(server._EMPTY_FLAGS)
        call.start_server_batch((operation,), arrived)
        state.due.add(server._RECEIVE_MESSAGE_TOKEN)
        expected[state] = event
        return job

    def _begin(self, job: Task, state: Any) -> None:
        try:
            self._taken_from.begin(job)
        except RuntimeError:
            # The server is stopping, and the call with it. An exception here would end grpc's
            # thread.
            _LOG.debug("a call came after the threads were closed")
            self._admission.leave(state)
            job.end()

    def _answer(self, event: Any, state: Any, behavior: Callable[..., bytes], request: Any) -> None:
        """Call the behaviour as grpc's `_unary_response_in_pool` does, without plugins."""
        server, begun, leave = self._server, self._begun, self._admission.leave
        if not server._is_rpc_state_active(state):
            leave(state)
            return  # Cancelled while it waited in the queue.
        begun[state] = event
        # The slot is released before the response: its client may call again at once.
        try:
            response = behavior(request, server._Context(event, state, None))
        except Exception as error:
            leave(state)
            if begun.pop(state, None) is not None:
                fail_call(event, state, error)
        else:
            leave(state)
            if begun.pop(state, None) is not None:
                server._status(event, state, response)

    def _stream(self, event: Any, state: Any, behavior: Callable[..., Any], request: Any) -> None:
        server = self._server
        if server._is_rpc_state_active(state):
            server._stream_response_in_pool(event, state, behavior, lambda: request, None, None)
            if getattr(behavior, "experimental_non_blocking", False):
                return  # A deferred handler calls `leave` itself.
        self._admission.leave(state)

    def _stream_of_requests(
        self, event: Any, state: Any, behavior: Callable[..., Any], first: bytes | None
    ) -> None:
        """Serve a call with a stream of requests, whose first message, or end, has arrived."""
        rest = self._server._RequestIterator(state, event.call, None)
        requests = iter(()) if first is None else itertools.chain((first,), rest)
        self._stream(event, state, behavior, requests)


_NO_PARSING = [None, None]
"""The deserializer and the serializer of handlers that take and give bytes."""
