"""Event loop of a grpc server in which new calls take turns by identity and connection.

grpc's own loop takes one new call at a time, in order of arrival, at some 0.1 ms of Python for
each. A client that sends a thousand calls at once, or cancels its calls after a millisecond, then
delays all other clients by the cost of its calls. This loop takes over all calls that have arrived,
which costs little, and begins them one at a time: identities take turns, then connections. So a
client waits for one call of each other identity and connection, however many they send. Calls whose
deadline passes meanwhile are dropped, as grpc's core has told their clients, and so are those of
clients that ignore HTTP/2's settings.

grpc has no public interface for this. If grpc differs from `grpc_internals`, calls begin in order
of arrival.
"""

import dataclasses
import time
from typing import Any

import grpc

from xla_server.execution.start_thread import start_thread
from xla_server.rpc.grpc_internals import known_server
from xla_server.rpc.peers.callers import host_of
from xla_server.rpc.threads.fair_queue import FairQueue
from xla_server.sessions.limits.shares.caller import Flow

MAX_WAITING_CALLS = 16_384
"""Arrived calls, of all connections, that may wait for their turns. Others wait in grpc's core, in
order. Each takes a few KiB; a connection may have a third of them (HTTP/2's limit of streams)."""

_MAX_COMPLETIONS = 16
"""Completions of operations that are handled before the next call begins. They belong to calls that
have begun, and streams produce them without end."""

_TAKE_OVER_SECONDS = 0.001
"""Seconds for which calls are taken over before the next one begins. Each takes some 10 us, but one
with as many headers as HTTP/2 allows takes 10 ms, and it may be followed by hundreds of
these.
"""

MAX_HEADERS = 512
"""Headers of a call. Fewer take up the 16 KiB that the server announces as its limit; only a client
that does not acknowledge the server's settings can send more, as grpc does not hold it to them."""

_WAITING = "waiting calls"
"""The entry in grpc's set of due events while calls wait for their turn."""

_READY = 0.0
"""A deadline in the past: a poll returns what has arrived."""


@dataclasses.dataclass(slots=True)
class _NewCall:
    flow: Flow
    event: Any
    deadline: float
    """Time of time.monotonic: grpc states it by the system's clock, which may be changed."""


def start_server(server: grpc.Server) -> None:
    """Start a grpc server, with turns for its calls if this grpc is known."""
    module = known_server()
    if module is None:
        server.start()
    else:
        # No reference to the server: grpc stops a server when the last one is gone.
        EventLoop(module, server._state).start()  # type: ignore[attr-defined]


class EventLoop:
    """The event loop of one grpc server, given grpc's server module and the server's state."""

    def __init__(self, module: Any, state: Any) -> None:
        self._grpc = module
        self._state = state
        self._waiting = FairQueue[_NewCall](1)
        self._active: set[Any] = set()
        """Jobs of calls that have not ended, which grpc's limit of concurrent calls counts."""
        self.dropped = 0
        """Calls whose deadline passed before their turn, or with too many headers."""

    def start(self) -> None:
        """Start the loop."""
        module, state = self._grpc, self._state
        with state.lock:
            # First, as a server whose events no thread handles cannot be stopped.
            start_thread(self._serve, "xla-events")
            state.server.start()
            state.stage = module._ServerStage.STARTED
            module._request_call(state)

    def _serve(self) -> None:
        while self._handle_completions() and self._begin_next():
            pass

    def _handle_completions(self) -> bool:
        """Handle arrived events, or wait for one, but begin no calls. False at the end."""
        module, state = self._grpc, self._state
        left = _MAX_COMPLETIONS
        until = 0.0
        while left:
            is_idle = not len(self._waiting)
            period = module._DEALLOCATED_SERVER_CHECK_PERIOD_S
            event = state.completion_queue.poll(time.time() + period if is_idle else _READY)
            if state.server_deallocated:
                module._begin_shutdown_once(state)
            if event.completion_type == module.cygrpc.CompletionType.queue_timeout:
                if is_idle:
                    continue
                return True
            if event.tag is module._REQUEST_CALL_TAG:
                if not self._take_over(event):
                    return False
                event = None
                now = time.monotonic()
                until = until or now + _TAKE_OVER_SECONDS
                if now >= until:
                    return True
                continue
            left -= 1
            if not module._process_event_and_continue(state, event):
                return False
            # Events refer to calls, which must be gone before the next poll.
            event = None
        return True

    def _take_over(self, event: Any) -> bool:
        """Queue a new call for its turn; return False if the server has stopped."""
        module, state = self._grpc, self._state
        with state.lock:
            state.due.remove(module._REQUEST_CALL_TAG)
            if event.success and len(event.invocation_metadata) > MAX_HEADERS:
                self.dropped += 1
            elif event.success:
                peer = event.call.peer().decode()
                if not len(self._waiting):
                    state.due.add(_WAITING)
                deadline = event.call_details.deadline - time.time() + time.monotonic()
                self._waiting.append(_NewCall(Flow(host_of(peer), peer), event, deadline))
            self._request_next()
            return not self._has_stopped()

    def _request_next(self) -> None:
        """Ask grpc's core for the next call, unless enough wait. Under grpc's lock."""
        module, state = self._grpc, self._state
        if (
            len(self._waiting) < MAX_WAITING_CALLS
            and module._REQUEST_CALL_TAG not in state.due
            and state.stage is module._ServerStage.STARTED
        ):
            module._request_call(state)

    def _begin_next(self) -> bool:
        """Begin the call whose turn it is, if any; return False if the server has stopped."""
        state = self._state
        while (call := self._waiting.pop()) is not None:
            self._waiting.done(call)
            is_late = call.deadline < time.monotonic()
            with state.lock:
                if not len(self._waiting):
                    state.due.discard(_WAITING)
                if is_late:
                    self.dropped += 1
                else:
                    self._begin(call.event)
                self._request_next()
                if self._has_stopped():
                    return False
            if not is_late:
                return True
        return True

    def _begin(self, event: Any) -> None:
        """Begin a call as grpc does. Under grpc's lock."""
        module, state = self._grpc, self._state
        limit = state.maximum_concurrent_rpcs
        rpc_state, job = module._handle_call(
            event,
            module._GenericMethod(state.generic_handlers),
            state.interceptor_pipeline,
            state.thread_pool,
            limit is not None and len(self._active) >= limit,
        )
        if rpc_state is not None:
            state.rpc_states.add(rpc_state)
        if job is not None:
            # grpc counts under its lock, which every thread that ends a call would wait for.
            self._active.add(job)
            job.add_done_callback(self._active.discard)

    def _has_stopped(self) -> bool:
        """Return whether the server has stopped. Under grpc's lock."""
        module, state = self._grpc, self._state
        return state.stage is not module._ServerStage.STARTED and module._stop_serving(state)
