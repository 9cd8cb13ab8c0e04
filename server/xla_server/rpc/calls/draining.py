"""Draining of a server: calls in progress may end, new ones are refused.

grpc's own stop leaves some calls without an answer. A call is lost if it comes after the core has
dropped the requests for calls and before it has noted the stop: it waits until the server cancels
all. Other calls end with CANCELLED, although their clients cancelled nothing. So grpc is stopped
last, when no call is in progress, and until then calls are refused here.
"""

import dataclasses
import threading
import time
from typing import Any

import grpc

from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_server.rpc.calls.active_calls import ActiveCalls, shutting_down
from xla_server.rpc.calls.completion import SendResponse, end_call
from xla_server.rpc.errors import status_of
from xla_server.rpc.grpc_internals import EndableCalls
from xla_server.rpc.threads.pools import Pool, Pools
from xla_server.sessions.runs.active_executions import ActiveExecutions

_ROUND_SECONDS = 0.02
"""Seconds between two looks at the calls in progress, which need not report their ends."""

_QUIET_SECONDS = 0.1
"""Seconds without a new call after which grpc is stopped."""

_LINGER_SECONDS = 1.0
"""Bound of that wait in seconds: clients that call more often have been refused by then."""

_RPCS = {rpc.path.encode(): rpc for rpc in (*RPCS, *EXTENSION_RPCS)}


def refusing_handler(
    rpc: Rpc, calls: ActiveCalls, pools: Pools
) -> "grpc.RpcMethodHandler[Any, Any]":
    """The handler of an rpc while the server drains: it ends calls with UNAVAILABLE.

    It is that of a stream, for whose messages grpc does not wait; all calls begin alike.
    """
    status = _status(rpc)

    def refuse(_: Any, context: grpc.ServicerContext, send: SendResponse) -> None:
        calls.refused_at = time.monotonic()
        end_call(context, send, status)

    behaviour: Any = refuse
    # Read by grpc: the behaviour gets the callback that sends responses, and these threads.
    behaviour.experimental_non_blocking = True
    behaviour.experimental_thread_pool = pools.refusals
    return grpc.stream_stream_rpc_method_handler(behaviour)


@dataclasses.dataclass
class DrainController:
    """The end of a server's work. For one thread."""

    _calls: ActiveCalls
    _launched: ActiveExecutions
    _pools: Pools
    _began_at: float = 0.0

    def begin(self) -> None:
        """Refuse what comes from now on, and what has come in part."""
        self._began_at = self._calls.refused_at = time.monotonic()
        self._calls.are_refused = True
        self._end_unbegun()

    def wait(self, seconds: float, cut_short: threading.Event | None = None) -> bool:
        """Wait until all has ended, answers have been sent, and launched executions are over.

        Gives False when some is left after `seconds`, or when `cut_short` is set.
        """
        deadline = time.monotonic() + seconds
        pause = (cut_short or threading.Event()).wait
        while True:
            # One that was let in a moment before the beginning may come to light after it.
            self._end_unbegun()
            self._end_left_alone()
            if self._is_over():
                return True
            left = deadline - time.monotonic()
            if left <= 0 or pause(min(left, _ROUND_SECONDS)):
                return False

    def end_busy(self) -> int:
        """Answer unary calls whose threads have not seen that they are to end; returns how many."""
        return _end_all(self._pools.begun) + self._calls.end_busy()

    def linger(self, seconds: float, cut_short: threading.Event) -> None:
        """Refuse calls until none comes for a moment, `seconds` in all, or `cut_short` is set.

        So clients with calls in progress get our status.
        """
        last = self._began_at + min(seconds, _LINGER_SECONDS)
        while True:
            now = time.monotonic()
            left = min(last, self._calls.refused_at + _QUIET_SECONDS) - now
            if left <= 0 or cut_short.wait(left):
                return

    def _is_over(self) -> bool:
        pools = self._pools
        # A call is with a thread before it is with the calls, and may be with one again after.
        is_over = pools.is_idle() and self._calls.are_over() and not self._launched.value
        return is_over and pools.is_idle()

    def _end_left_alone(self) -> None:
        """End the streams of feeds once no program runs: a draining server starts no other."""
        pools = self._pools
        # A call is with a thread before it is with the calls.
        if self._launched.value or not pools.is_idle(besides=Pool.STREAM):
            return
        left = self._calls.left_alone()
        if pools.is_idle(besides=Pool.STREAM):
            for call in left:
                call.cancel(shutting_down())

    def _end_unbegun(self) -> None:
        """End calls whose requests have not come whole, and streams without a first message."""
        _end_all(self._pools.expected)
        for silence in self._pools.silences.copy():
            if not silence.has_begun:
                silence.cancel(shutting_down())


def _end_all(calls: EndableCalls) -> int:
    """End calls of the contract's rpcs; returns how many. Health checks are answered."""
    return sum(
        calls.end(state, _status(rpc))
        for state, event in calls.events.copy().items()
        if (rpc := _RPCS.get(event.call_details.method)) is not None
    )


def _status(rpc: Rpc) -> grpc.Status:
    """Return the status of a call that is refused while the server drains."""
    return status_of(shutting_down().at(rpc.name))
