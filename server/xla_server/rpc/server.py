"""The gRPC server: listens, answers, drains."""

import contextlib
import dataclasses
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc

from xla_contract.descriptors import EXTENSION_NAME, EXTENSION_RPCS, RPCS, SERVICE_NAME
from xla_server.rpc.arrivals import known_server
from xla_server.rpc.call_places import CallPlaces
from xla_server.rpc.calls import Calls, shutting_down
from xla_server.rpc.discovery import Discovery
from xla_server.rpc.draining import Draining
from xla_server.rpc.extension import extension_rows
from xla_server.rpc.extension_converse import Conversations
from xla_server.rpc.handlers import Boundary
from xla_server.rpc.listeners import Listeners
from xla_server.rpc.memory_pressure import MemoryPressure
from xla_server.rpc.methods import ServiceHandler, Streaming
from xla_server.rpc.places import CALL_LIMITS, STREAM_LIMITS, PlaceLimits
from xla_server.rpc.pools import Pools, PoolSizes
from xla_server.rpc.presence import Presence
from xla_server.rpc.servicer import ROWS
from xla_server.rpc.shared_memory_socket import SharedMemorySocket
from xla_server.sessions.registry import SessionRegistry

_LOG = logging.getLogger(__name__)

_ANSWER_SECONDS = 1.0
"""How long calls that were told to stop get for saying so to their clients."""

_STOP_SECONDS = 0.25
"""How long grpc's own stop waits for clients that do not leave, when no call is in progress."""

_UNREAD_CALLS = 1024
"""Of a connection, beyond those that may be in progress: further ones wait in its client."""

_ENDING_CALLS = 1024
"""Those that grpc still counts after their places were left."""


@dataclasses.dataclass(frozen=True, slots=True)
class RpcOptions:
    """How to serve."""

    listen: Sequence[str]
    max_message_bytes: int = 2**31 - 1
    max_resident_bytes: int = 0
    """Of memory of the process, beyond which calls that send slowly are ended; 0 for any."""
    pool_sizes: PoolSizes = dataclasses.field(default_factory=PoolSizes)
    calls: PlaceLimits = CALL_LIMITS
    streams: PlaceLimits = STREAM_LIMITS
    shared_memory_connections: int = 256


class RpcServer:
    """One listening server. Made by `serving`."""

    def __init__(self, sessions: SessionRegistry, options: RpcOptions) -> None:
        self._sessions = sessions
        self._calls = Calls()
        self._is_cancelled = threading.Event()
        self._pools = Pools(
            options.pool_sizes, options.streams, CallPlaces(options.calls, sessions.has)
        )
        self._memory_pressure = MemoryPressure(
            self._pools.expected, self._pools.silences, options.max_resident_bytes
        )
        # All handlers name threads of their own; grpc wants some all the same.
        self._default_threads = ThreadPoolExecutor(1, thread_name_prefix="grpc")
        self._server = grpc.server(
            self._default_threads,
            maximum_concurrent_rpcs=_most_calls(options),
            options=[
                ("grpc.max_receive_message_length", options.max_message_bytes),
                ("grpc.max_send_message_length", options.max_message_bytes),
                # An answer that is not read is no call in progress any more, but takes memory.
                ("grpc.max_concurrent_streams", options.calls.limit + _UNREAD_CALLS),
                # A second server on the port must fail, not take half of the calls.
                ("grpc.so_reuseport", 0),
                # A client that vanished without a word must not wait in a queue for ever.
                ("grpc.keepalive_time_ms", 30_000),
                ("grpc.keepalive_timeout_ms", 10_000),
                # Pings that measure the way, too: while one is not answered no other is sent.
                ("grpc.http2.ping_timeout_ms", 40_000),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
                # Else a ping that comes just after a call has ended is taken for one too many.
                ("grpc.keepalive_permit_without_calls", 1),
            ],
        )
        self._shared_memory = _shared_memory(sessions, options)
        boundary = Boundary(sessions, self._calls, options.max_message_bytes)
        self._draining = Draining(self._calls, sessions.engine.launched, self._pools)
        extension = extension_rows(
            sessions,
            options.max_message_bytes,
            self._shared_memory.path if self._shared_memory is not None else "",
        )
        self._conversations = Conversations(
            {rpc.path[1:]: (rpc, ROWS[rpc.name]) for rpc in RPCS}
            | {
                rpc.path[1:]: (rpc, extension[rpc.name])
                for rpc in EXTENSION_RPCS
                if rpc.name != "Converse"
            },
            self._pools,
            boundary,
        )
        extension["Converse"] = Streaming(self._conversations.serve)
        for name, rpcs, rows in (
            (SERVICE_NAME, RPCS, ROWS),
            (EXTENSION_NAME, EXTENSION_RPCS, extension),
        ):
            handler = ServiceHandler(name, rpcs, rows, self._pools, boundary)
            self._server.add_generic_rpc_handlers((handler,))
        pools = self._pools
        self._discovery = Discovery(self._server, pools.expected, pools.silences, pools.calls)
        try:
            self._listeners = Listeners(options.listen, self._server.add_insecure_port)
        except BaseException:
            self._close_shared_memory()
            raise

    @property
    def addresses(self) -> Sequence[str]:
        """Where the server listens, in the order of the options."""
        return self._listeners.addresses

    @property
    def address(self) -> str:
        """The first of the addresses."""
        return self._listeners.addresses[0]

    def start(self) -> None:
        """Begin to answer."""
        self._presence = Presence(self._sessions)
        self._memory_pressure.start()
        self._server.start()
        self._discovery.set_serving()

    @property
    def device_bytes(self) -> int:
        """Bytes of all sessions on the devices, and of the calls that set some aside."""
        return self._sessions.engine.memory.used_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of memory shared with the clients of all sessions."""
        return self._sessions.engine.arenas.lent_bytes

    def cancel(self) -> None:
        """End calls and launched executions, also those that come later, with UNAVAILABLE."""
        self._calls.cancel_all()
        self._sessions.engine.launched.cancel_all(shutting_down())
        self._is_cancelled.set()

    def drain(self, grace_seconds: float) -> bool:
        """Refuse calls, let calls and launched executions end for a while, then cancel them.

        Calls that come, over connections that there are or new ones, are told UNAVAILABLE at once;
        health says NOT_SERVING. Gives False when threads are still busy at the end: a call in the
        middle of one long operation sees its cancellation only after it.
        """
        engine = self._sessions.engine
        self._discovery.set_draining()
        self._draining.begin()
        self._conversations.drain()
        # Calls may wait for executions, and executions for streams: all have the same time.
        has_ended = self._draining.wait(grace_seconds, self._is_cancelled)
        if not has_ended and not self._is_cancelled.is_set():
            _LOG.warning(
                "the grace period is over, %d calls and %d launched executions are cancelled",
                len(self._calls),
                engine.launched.value,
            )
        self._draining.linger(grace_seconds, self._is_cancelled)
        self.cancel()
        self._draining.wait(2 * _ANSWER_SECONDS)
        # A call that comes in this moment may hang, or be cancelled, for as long as this takes.
        all_ended = self._server.stop(_STOP_SECONDS).wait(_STOP_SECONDS + _ANSWER_SECONDS)
        if all_ended:  # grpc may otherwise still hand calls to the threads.
            self._default_threads.shutdown(wait=False, cancel_futures=True)
            self._discovery.close()
        self._presence.close()
        self._memory_pressure.close()
        is_idle = self._pools.close(_ANSWER_SECONDS) and all_ended
        self._close_shared_memory()
        self._sessions.close_all()
        is_idle = engine.close(_ANSWER_SECONDS) and is_idle
        self._listeners.close()
        return is_idle

    def _close_shared_memory(self) -> None:
        if self._shared_memory is not None:
            self._shared_memory.close()


@contextlib.contextmanager
def serving(sessions: SessionRegistry, options: RpcOptions) -> Iterator[RpcServer]:
    """A server that answers until the block ends; then calls in progress are cancelled.

    Raises CannotListenError.
    """
    server = RpcServer(sessions, options)
    server.start()
    try:
        yield server
    finally:
        server.drain(0)


def _most_calls(options: RpcOptions) -> int:
    """How many calls grpc lets in: more than have places, so that who is refused is told why.

    grpc refuses whoever comes next. Where calls have no places, that is all there is.
    """
    if known_server() is None:
        return options.calls.limit
    return options.calls.most + options.streams.most + _ENDING_CALLS


def _shared_memory(sessions: SessionRegistry, options: RpcOptions) -> SharedMemorySocket | None:
    """The socket for shared memory; None where it is turned off, or the system has none."""
    if not sessions.engine.limits.shared_memory_bytes or not hasattr(os, "memfd_create"):
        return None
    try:
        return SharedMemorySocket(sessions, max_connections=options.shared_memory_connections)
    except OSError as error:
        _LOG.warning("memory is not shared with clients: %s", error)
        return None
