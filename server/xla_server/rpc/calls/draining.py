"""Draining of a server: calls in progress may end, new ones are refused.

grpc's own stop leaves some calls without an answer. A call that arrives after the core has dropped
its requests for calls, but before it records the stop, waits until the server cancels everything.
Other calls end with CANCELLED, although their clients cancelled nothing. So grpc is stopped last,
when no call is in progress, and until then calls are refused here.

The results of launched executions are kept until their clients have fetched or freed them, or used
them as arguments, for the grace period at most. Meanwhile the calls that they need for that are
served, in the sessions with such results alone. So an idle client without results delays no drain.
"""

import collections
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_contract.errors import NotBegunError, UnavailableError, XlaError
from xla_server.execution.cancellation_set import CancellationSet
from xla_server.rpc.calls.active_calls import ActiveCalls, shutting_down
from xla_server.rpc.calls.completion import SendResponse, end_call
from xla_server.rpc.errors import status_of
from xla_server.rpc.grpc_internals import EndableCalls
from xla_server.rpc.metadata import Metadata, session_token
from xla_server.rpc.peers.connections import Connections
from xla_server.rpc.threads.pools import Pool, Pools
from xla_server.sessions.session_registry import SessionEntry, SessionRegistry

_ROUND_SECONDS = 0.02
"""Seconds between two polls of the calls in progress, which need not report their ends."""

_QUIET_SECONDS = 0.1
"""Seconds without a new call after which grpc is stopped."""

_LINGER_SECONDS = 1.0
"""Upper bound of that wait in seconds: clients that keep calling have been refused by then."""

_RPCS = {rpc.path.encode(): rpc for rpc in (*RPCS, *EXTENSION_RPCS)}

_RESULT_RPCS = frozenset(
    {
        "AllocateShared",
        "CancelExecution",
        "CloseSession",
        "DeconstructTuple",
        "DescribeHandles",
        "Download",
        "DownloadShared",
        "FreeShared",
        "GetShape",
        "TransferToClient",
        "Unpack",
        "Unregister",
        "WaitForExecution",
    }
)
"""The rpcs by which clients wait for launched executions, and fetch or free their results."""

_RESULT_PATHS = frozenset(rpc.path for rpc in _RPCS.values() if rpc.name in _RESULT_RPCS)


def refusing_handler(
    rpc: Rpc, calls: ActiveCalls, pools: Pools
) -> "grpc.RpcMethodHandler[Any, Any]":
    """The handler of an rpc while the server drains: it ends calls with UNAVAILABLE.

    It is a streaming handler, as grpc begins a stream without waiting for a message.
    """
    status = _status(rpc)

    def refuse(_: Any, context: grpc.ServicerContext, send: SendResponse) -> None:
        calls.refused_at = time.monotonic()
        end_call(context, send, status)

    behaviour: Any = refuse
    # Read by grpc: the behaviour gets the callback that sends responses, and runs in these threads.
    behaviour.experimental_non_blocking = True
    behaviour.experimental_thread_pool = pools.refusals
    return grpc.stream_stream_rpc_method_handler(behaviour)


@dataclasses.dataclass
class DrainController:
    """The steps that drain a server. Not thread-safe."""

    _calls: ActiveCalls
    _launched: CancellationSet
    _pools: Pools
    _sessions: SessionRegistry
    _connections: Connections
    _began_at: float = 0.0
    _keeps_results: bool = False

    def begin(self) -> None:
        """Refuse calls from now on, and those whose requests are incomplete.

        Calls for results of launched executions are served until `end_results`.
        """
        self._began_at = self._calls.refused_at = time.monotonic()
        self._keeps_results = True
        self._calls.is_served = self._is_served
        self._calls.are_refused = True
        self._end_unbegun()

    def wait(self, seconds: float, cut_short: threading.Event | None = None) -> bool:
        """Wait until all calls and launched executions have ended and responses are sent.

        Until `end_results`, also wait for clients that have results to fetch. Returns False if some
        are left after `seconds`, or if `cut_short` is set.
        """
        deadline = time.monotonic() + seconds
        pause = (cut_short or threading.Event()).wait
        while True:
            # A call admitted just before `begin` may be registered after it.
            self._end_unbegun()
            self._end_left_alone()
            if self._is_over():
                return True
            left = deadline - time.monotonic()
            if left <= 0 or pause(min(left, _ROUND_SECONDS)):
                return False

    def end_results(self) -> "collections.Counter[str]":
        """Serve no more calls for results; return how many are lost, by program."""
        self._keeps_results = False
        return collections.Counter(
            program
            for session in self._sessions.unfetched()
            for program in list(session.service.data.unfetched.values())
        )

    def end_busy(self) -> int:
        """End unary calls whose threads have not noticed the cancellation; return how many."""
        return _end_all(self._pools.begun) + self._calls.end_busy()

    def linger(self, seconds: float, cut_short: threading.Event) -> None:
        """Refuse calls until none arrives for a moment, for `seconds` or until `cut_short`.

        So clients with calls on the way get our status.
        """
        last = self._began_at + min(seconds, _LINGER_SECONDS)
        while True:
            now = time.monotonic()
            left = min(last, self._calls.refused_at + _QUIET_SECONDS) - now
            if left <= 0 or cut_short.wait(left):
                return

    def _is_over(self) -> bool:
        pools = self._pools
        # A call is counted by a thread pool before and, possibly, after it is in the set of calls.
        is_over = pools.is_idle() and self._calls.are_over() and not self._launched
        return is_over and not self._has_results() and pools.is_idle()

    def _has_results(self) -> bool:
        """Return whether a client that is connected has results to fetch."""
        sessions = self._sessions.unfetched() if self._keeps_results else []
        is_connected = self._connections.when_asked()

        def is_there(session: SessionEntry) -> bool:
            names = list(filter(None, (session.kept_by, session.connection)))
            # Without a name it came over a unix socket, where only a stream shows that it leaves.
            may_be_there = not names and not session.has_been_attached
            return session.attached > 0 or may_be_there or any(map(is_connected, names))

        return any(map(is_there, sessions))

    def _is_served(self, path: str, metadata: Metadata | None) -> bool:
        """Return whether a call is one for the results that its session has."""
        if not self._keeps_results or path not in _RESULT_PATHS:
            return False
        try:
            return self._sessions.keeps_results(session_token(metadata))
        except XlaError:  # It names several sessions.
            return False

    def _end_left_alone(self) -> None:
        """End the feed streams once no program runs: a draining server starts no other."""
        pools = self._pools
        # A call is counted by a thread pool before it is in the set of calls.
        if self._launched or not pools.is_idle(besides=Pool.STREAM):
            return
        left = self._calls.left_alone()
        if pools.is_idle(besides=Pool.STREAM):
            for call in left:
                call.cancel(shutting_down())

    def _end_unbegun(self) -> None:
        """End calls whose requests are incomplete, and streams without a first message."""
        _end_all(self._pools.expected, self._is_served)
        for silence in self._pools.silences.copy():
            if not silence.has_begun:
                silence.cancel(shutting_down())


def _end_all(
    calls: EndableCalls, is_served: Callable[[str, Metadata | None], bool] = lambda *_: False
) -> int:
    """End calls of the contract's rpcs; return how many. Health checks are still answered."""
    return sum(
        calls.end(state, _status(rpc))
        for state, event in calls.events.copy().items()
        if (rpc := _RPCS.get(event.call_details.method)) is not None
        and not is_served(rpc.path, event.invocation_metadata)
    )


def _status(rpc: Rpc) -> grpc.Status:
    """Return the status of a call that is refused while the server drains.

    A client makes the calls of a refused stream of calls as ordinary ones.
    """
    kind = NotBegunError if rpc.name == "Converse" else UnavailableError
    return status_of(shutting_down(kind).at(rpc.name))
