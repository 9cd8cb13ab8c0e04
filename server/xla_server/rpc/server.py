"""The gRPC server: listens, answers, drains."""

import contextlib
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc

from xla_contract.descriptors import EXTENSION_NAME, EXTENSION_RPCS, RPCS, SERVICE_NAME
from xla_server.identity.authenticator import Authenticator
from xla_server.identity.certificates import KeyPair
from xla_server.identity.watched_file import WatchedFile
from xla_server.rpc.calls.active_calls import ActiveCalls, shutting_down
from xla_server.rpc.calls.boundary import Boundary
from xla_server.rpc.calls.draining import DrainController
from xla_server.rpc.calls.method_table import ServiceHandler, Streaming
from xla_server.rpc.grpc_internals import known_server
from xla_server.rpc.limits.call_admission import CallAdmission
from xla_server.rpc.limits.concurrency_limit import CALL_LIMITS, STREAM_LIMITS, ConcurrencyLimits
from xla_server.rpc.limits.liveness import SessionReaper
from xla_server.rpc.limits.memory_pressure import MemoryPressure
from xla_server.rpc.listeners import PRIVATE_MODE, Listeners, is_socket
from xla_server.rpc.methods.extension_service import extension_methods
from xla_server.rpc.methods.health_and_reflection import Discovery
from xla_server.rpc.methods.multiplexing import MultiplexedStreams
from xla_server.rpc.methods.server_status import ServerRpcs
from xla_server.rpc.methods.xla_service import METHODS
from xla_server.rpc.metrics import StateCollector
from xla_server.rpc.peers.callers import Callers
from xla_server.rpc.peers.connections import connected_server
from xla_server.rpc.peers.gate import Gate
from xla_server.rpc.peers.tls import server_credentials
from xla_server.rpc.shared_memory_socket import SharedMemorySocket
from xla_server.rpc.threads.event_loop import start_server
from xla_server.rpc.threads.pools import Pools, PoolSizes
from xla_server.sessions.session_registry import SessionRegistry

_LOG = logging.getLogger(__name__)

_ANSWER_SECONDS = 0.5
"""Seconds after which cancelled calls are answered even if their threads are busy."""

_STOP_SECONDS = 0.1
"""Grace period of grpc's own stop for clients that do not leave, in seconds."""

_CLOSE_SECONDS = 0.9
"""Timeout of all that a drain waits for after the cancellation, in seconds: calls, grpc, threads.

They share it, because on a busy machine idle threads may take longer to end than calls.
"""

_NAMES = 10
"""Programs that the log names whose results were not fetched, those with the most first."""

_UNREAD_CALLS = 1024
"""Calls of a connection, beyond those in progress, that grpc accepts; others wait in the client."""

_PENDING_CALLS = 16_384
"""Calls of all connections together; each takes a few KiB."""

_PENDING_SECONDS = 3600
"""Seconds for which a call may wait for Python: longer than any deadline."""

_ENDING_CALLS = 1024
"""Calls that grpc still counts after their slots were released."""


@dataclasses.dataclass(frozen=True, slots=True)
class RpcOptions:
    """Options of a server."""

    listen: Sequence[str]
    max_message_bytes: int = 2**31 - 1
    max_resident_bytes: int = 0
    """Resident memory of the process in bytes above which slow calls are ended; 0 for no limit."""
    pool_sizes: PoolSizes = dataclasses.field(default_factory=PoolSizes)
    calls: ConcurrencyLimits = CALL_LIMITS
    streams: ConcurrencyLimits = STREAM_LIMITS
    shared_memory_connections: int = 256
    authenticator: Authenticator | None = None
    """Authenticator of callers; without one every client may call."""
    certificates: WatchedFile[KeyPair] | None = None
    """Key pair for TLS on TCP ports; without one they speak plaintext."""
    socket_mode: int = PRIVATE_MODE
    """Mode of the files of unix sockets."""


def channel_arguments(options: RpcOptions) -> list[tuple[str, int]]:
    """The arguments of grpc's server, which grpc's core reads by name."""
    return [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", options.max_message_bytes),
        # Identity alone: a compressed message expands to up to a thousand times its bytes.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # Identifies connections.
        ("grpc.enable_channelz", 1),
        # A response that is not read takes memory, though its call is no longer in progress.
        ("grpc.max_concurrent_streams", options.calls.limit + _UNREAD_CALLS),
        # A second server on the port must fail, not take half of the calls.
        ("grpc.so_reuseport", 0),
        # A client that vanished silently must not wait in a queue forever.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # Also for pings that measure bandwidth: while one is unanswered no other is sent.
        ("grpc.http2.ping_timeout_ms", 40_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        # Otherwise a ping just after the end of a call would count as excessive.
        ("grpc.keepalive_permit_without_calls", 1),
        # Calls that wait for Python to take them. grpc's defaults cancel some at random beyond
        # 1,000, and all after 30 seconds: well-behaved clients would pay for others. Calls that
        # wait too long end at their deadlines.
        ("grpc.server.max_pending_requests", _PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", 2 * _PENDING_CALLS),
        ("grpc.server_max_unrequested_time_in_server", _PENDING_SECONDS),
    ]


class RpcServer:
    """One listening server. Made by `serving`."""

    def __init__(self, sessions: SessionRegistry, options: RpcOptions) -> None:
        self._sessions = sessions
        self._calls = ActiveCalls()
        self._is_cancelled = threading.Event()
        gate = Gate(options.authenticator)
        self._has_drained: bool | None = None
        self._presence: SessionReaper | None = None
        admission = CallAdmission(options.calls, sessions.account_of)
        self._pools = Pools(options.pool_sizes, options.streams, admission, gate)
        self._memory_pressure = MemoryPressure(
            self._pools.expected, self._pools.silences, options.max_resident_bytes
        )
        # All handlers name threads of their own; grpc requires an executor nevertheless.
        self._default_threads = ThreadPoolExecutor(1, thread_name_prefix="grpc")
        self._server, self._connections = connected_server(lambda: self._made(options))
        self._shared_memory = _shared_memory(sessions, options)
        callers = Callers(self._connections, gate)
        self._leases = callers.leases
        boundary = Boundary(sessions, self._calls, options.max_message_bytes, callers)
        self._draining = DrainController(
            self._calls, sessions.engine.launched, self._pools, sessions, self._connections
        )
        state = ServerRpcs(sessions, self._pools, options.max_resident_bytes)
        self.metrics = boundary.metrics.registry
        refusals = gate.refusals, admission.refusals
        self.metrics.register(
            StateCollector(state.state, state.totals, lambda: self._calls.are_refused, refusals)
        )
        extension = extension_methods(
            sessions,
            options.max_message_bytes,
            self._shared_memory.path if self._shared_memory is not None else "",
            state,
        )
        self._conversations = MultiplexedStreams(
            {rpc.path[1:]: (rpc, METHODS[rpc.name]) for rpc in RPCS}
            | {
                rpc.path[1:]: (rpc, extension[rpc.name])
                for rpc in EXTENSION_RPCS
                if rpc.name != "Converse"
            },
            self._pools,
            boundary,
        )
        extension["Converse"] = Streaming(self._conversations.serve)
        for name, rpcs, specs in (
            (SERVICE_NAME, RPCS, METHODS),
            (EXTENSION_NAME, EXTENSION_RPCS, extension),
        ):
            handler = ServiceHandler(name, rpcs, specs, self._pools, boundary)
            self._server.add_generic_rpc_handlers((handler,))
        self._discovery = Discovery(self._server, self._pools, gate)
        try:
            self._listeners = Listeners(
                options.listen, self._binder(options.certificates), options.socket_mode
            )
        except BaseException:
            self._close_shared_memory()
            raise

    def _made(self, options: RpcOptions) -> grpc.Server:
        return grpc.server(
            self._default_threads,
            maximum_concurrent_rpcs=_max_calls(options),
            options=channel_arguments(options),
        )

    def _binder(self, certificates: WatchedFile[KeyPair] | None) -> Callable[[str], int]:
        """Return a function that binds an address: with TLS unless it is a unix socket."""
        insecure = self._server.add_insecure_port
        if certificates is None:
            return insecure
        credentials = server_credentials(certificates)

        def bind(address: str) -> int:
            if is_socket(address):
                return insecure(address)
            return self._server.add_secure_port(address, credentials)

        return bind

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses on which the server listens, in the order of the options."""
        return self._listeners.addresses

    @property
    def address(self) -> str:
        """The first of the addresses."""
        return self._listeners.addresses[0]

    def start(self) -> None:
        """Start serving."""
        self._presence = SessionReaper(self._sessions, self._connections)
        self._memory_pressure.start()
        self._leases.start()
        start_server(self._server)
        self._discovery.set_serving()

    @property
    def device_bytes(self) -> int:
        """Bytes of all sessions on the devices, reservations of calls included."""
        return self._sessions.engine.memory.used_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of memory shared with the clients of all sessions."""
        return self._sessions.engine.arenas.lent_bytes

    def set_distributed(self, *, is_healthy: bool) -> None:
        """Report by health whether the devices of all processes can be used."""
        self._discovery.set_distributed(is_healthy=is_healthy)

    def cancel(self) -> None:
        """End calls and launched executions, also later ones, with UNAVAILABLE."""
        self._calls.cancel_all()
        self._sessions.engine.launched.cancel_all(shutting_down())
        self._is_cancelled.set()

    def drain(self, grace_seconds: float) -> bool:
        """Refuse new calls, wait for calls and launched executions, then cancel them.

        New calls, on open connections or new ones, end with UNAVAILABLE at once, except those that
        fetch or free the results of launched executions. Health says NOT_SERVING. Returns False if
        threads are still busy at the end: a call in one long operation polls its cancellation only
        after it, but is answered. All ends less than a second after the grace period; a second
        drain has no effect.
        """
        if self._has_drained is None:
            self._has_drained = self._drain(grace_seconds)
        return self._has_drained

    def _drain(self, grace_seconds: float) -> bool:
        engine = self._sessions.engine
        self._discovery.set_draining()
        self._draining.begin()
        self._conversations.drain()
        # Calls may wait for executions, and executions for streams: all share one deadline.
        has_ended = self._draining.wait(grace_seconds, self._is_cancelled)
        in_progress = len(self._calls), len(engine.launched)
        if any(in_progress) and not has_ended and not self._is_cancelled.is_set():
            _LOG.warning(
                "the grace period is over, %d calls and %d launched executions are cancelled",
                *in_progress,
            )
        lost = self._draining.end_results()
        if lost:
            programs = ", ".join(f"{count} of {name}" for name, count in lost.most_common(_NAMES))
            _LOG.warning(
                "%d results of launched executions were not fetched: %s", lost.total(), programs
            )
        self._draining.linger(grace_seconds, self._is_cancelled)
        self.cancel()
        deadline = time.monotonic() + _CLOSE_SECONDS

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        if not self._draining.wait(_ANSWER_SECONDS):
            _LOG.warning("answered %d calls that are busy", self._draining.end_busy())
        # A call that arrives during grpc's stop may hang, or be cancelled, until it is over.
        all_ended = False
        with contextlib.suppress(RuntimeError):  # grpc starts a thread, which may be refused.
            all_ended = self._server.stop(_STOP_SECONDS).wait(left())
        if all_ended:  # Otherwise grpc might still submit calls to the threads.
            self._default_threads.shutdown(wait=False, cancel_futures=True)
            self._discovery.close()
        if self._presence is not None:
            self._presence.close()
        self._leases.close()
        self._memory_pressure.close()
        is_idle = self._pools.close(left()) and all_ended
        self._close_shared_memory()
        self._sessions.close_all()
        is_idle = engine.close(left()) and is_idle
        self._listeners.close()
        return is_idle

    def _close_shared_memory(self) -> None:
        if self._shared_memory is not None:
            self._shared_memory.close()


@contextlib.contextmanager
def serving(sessions: SessionRegistry, options: RpcOptions) -> Iterator[RpcServer]:
    """A server that serves for the block; at its end calls in progress are cancelled.

    Raises CannotListenError, and as `RpcServer.start`.
    """
    server = RpcServer(sessions, options)
    try:
        server.start()
        yield server
    finally:
        server.drain(0)


def _max_calls(options: RpcOptions) -> int:
    """Return the limit of calls for grpc: more than have slots, so that refusals state a reason.

    grpc refuses further calls. Without slots for calls, this is the only limit.
    """
    if known_server() is None:
        return options.calls.limit
    limits = options.calls, options.streams
    return sum(each.limit + each.reserve for each in limits) + _ENDING_CALLS


def _shared_memory(sessions: SessionRegistry, options: RpcOptions) -> SharedMemorySocket | None:
    """The socket for shared memory; None if it is turned off, or the system cannot share."""
    if not sessions.engine.limits.shared_memory_bytes or not hasattr(os, "memfd_create"):
        return None
    try:
        return SharedMemorySocket(sessions, max_connections=options.shared_memory_connections)
    except OSError as error:
        _LOG.warning("memory is not shared with clients: %s", error)
        return None
