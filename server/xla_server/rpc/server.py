"""The gRPC server: listens, answers, drains."""

import contextlib
import dataclasses
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

from xla_contract.descriptors import SERVICE_NAME
from xla_server.rpc.calls import Calls
from xla_server.rpc.discovery import Discovery
from xla_server.rpc.handlers import rpc_handlers
from xla_server.rpc.pools import Pools, PoolSizes
from xla_server.rpc.servicer import Servicer
from xla_server.sessions.service import XlaService

_LOG = logging.getLogger(__name__)

_ANSWER_SECONDS = 1.0
"""How long calls that were told to stop get for saying so to their clients."""

_HEALTH_THREADS = 4


class CannotListenError(Exception):
    """The address cannot be listened on; the message says which and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class RpcOptions:
    """How to serve."""

    listen: str
    max_message_bytes: int = 2**31 - 1
    max_concurrent_calls: int = 4096
    pool_sizes: PoolSizes = dataclasses.field(default_factory=PoolSizes)


class RpcServer:
    """One listening server. Made by `serving`."""

    def __init__(self, service: XlaService, options: RpcOptions) -> None:
        self._calls = Calls()
        self._pools = Pools(options.pool_sizes)
        self._health_threads = ThreadPoolExecutor(_HEALTH_THREADS, thread_name_prefix="health")
        self._server = grpc.server(
            self._health_threads,
            maximum_concurrent_rpcs=options.max_concurrent_calls,
            options=[
                ("grpc.max_receive_message_length", options.max_message_bytes),
                ("grpc.max_send_message_length", options.max_message_bytes),
                # A second server on the port must fail, not take half of the calls.
                ("grpc.so_reuseport", 0),
                # A client that vanished without a word must not wait in a queue for ever.
                ("grpc.keepalive_time_ms", 30_000),
                ("grpc.keepalive_timeout_ms", 10_000),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
            ],
        )
        handlers = rpc_handlers(
            Servicer(service).methods,
            self._pools,
            self._calls,
            max_message_bytes=options.max_message_bytes,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE_NAME, handlers),)
        )
        self._discovery = Discovery(self._server)
        self.address = _listen(self._server, options.listen)

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()
        self._discovery.set_serving()

    def cancel_calls(self) -> None:
        """End the calls in progress, and those that come later, with UNAVAILABLE."""
        self._calls.cancel_all()

    def drain(self, grace_seconds: float) -> bool:
        """Take no more calls, let those in progress end for a while, then cancel them.

        Gives False when threads are still busy at the end: a call in the middle of one long
        operation sees its cancellation only after it.
        """
        self._discovery.set_draining()
        # grpc ends what is left with no word to the client; ours end one moment earlier.
        stopped = self._server.stop(grace_seconds + _ANSWER_SECONDS)
        if not stopped.wait(grace_seconds):
            _LOG.warning("the grace period is over, %d calls are cancelled", len(self._calls))
        self._calls.cancel_all()
        all_ended = stopped.wait(2 * _ANSWER_SECONDS)
        if all_ended:  # grpc may otherwise still hand calls to the threads.
            self._health_threads.shutdown(wait=False, cancel_futures=True)
            self._discovery.close()
        return self._pools.close(_ANSWER_SECONDS) and all_ended


@contextlib.contextmanager
def serving(service: XlaService, options: RpcOptions) -> Iterator[RpcServer]:
    """A server that answers until the block ends; then calls in progress are cancelled.

    Raises CannotListenError.
    """
    server = RpcServer(service, options)
    server.start()
    try:
        yield server
    finally:
        server.drain(0)


def _listen(server: grpc.Server, listen: str) -> str:
    """Bind, and give the address with the port that was found."""
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError:
        raise CannotListenError(f"cannot listen on {listen}: {_reason(listen)}") from None
    if listen.startswith("unix"):
        return listen
    host, _, _ = listen.rpartition(":")
    return f"{host}:{port}"


def _reason(listen: str) -> str:
    """Why binding fails, asked of the system, for grpc does not tell."""
    if listen.startswith("unix"):
        return "the socket cannot be made"
    host, _, port = listen.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
    except (OSError, ValueError) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error)
    return "the address cannot be bound"
