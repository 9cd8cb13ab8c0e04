"""Streams of Converse whose clients do not read, on a server in this process."""

import gc
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import kept
from xla_contract.descriptors import EXTENSION_RPCS
from xla_contract.errors import UnavailableError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.rpc.methods.multiplexing import MAX_BACKLOG_BYTES, MultiplexedStream
from xla_server.rpc.server import RpcOptions, RpcServer, serving
from xla_server.rpc.threads.pools import PoolSizes
from xla_server.sessions.session_registry import SessionEntry, SessionRegistry

CONVERSE = next(rpc for rpc in EXTENSION_RPCS if rpc.name == "Converse")
VALUE = np.arange(1 << 18, dtype=np.float32)
THREADS = PoolSizes(short=2, compile=2, execute=2, stream=6)


class Client:
    """A connection with one stream, which reads on request."""

    def __init__(self, address: str, session: SessionEntry) -> None:
        # Channels of one process share a connection, and with it the window of flow control.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(address, options=options)
        self._requests: queue.Queue[Any] = queue.Queue()
        method: Any = self._channel.stream_stream(
            CONVERSE.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=CONVERSE.response.FromString,
        )
        metadata = [("xla-session", session.token)]
        self._call = method(iter(self._requests.get, None), metadata=metadata, timeout=60)
        self._count = 0

    def ask(self, method: str, request: Any) -> None:
        self._count += 1
        self._requests.put(
            extension_pb2.ConverseRequest(
                id=self._count, method=method, request=request.SerializeToString()
            )
        )

    def read(self) -> Any:
        return next(self._call)

    def close(self) -> None:
        self._requests.put(None)
        self._call.cancel()
        self._channel.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RpcServer]:
    sessions = SessionRegistry(shared_resources(1 << 28))
    options = RpcOptions(listen=("127.0.0.1:0",), pool_sizes=THREADS)
    with serving(sessions, options) as running:
        yield running


@pytest.fixture
def connected(server: RpcServer) -> Iterator[Callable[[], tuple[Client, SessionEntry]]]:
    clients: list[Client] = []

    def connect() -> tuple[Client, SessionEntry]:
        session = server._sessions.open()
        clients.append(Client(server.address, session))
        return clients[-1], session

    yield connect
    for client in clients:
        client.close()


def _download(session: SessionEntry) -> xla_pb2.TransferToClientRequest:
    handle = kept(session.service, VALUE)
    return xla_pb2.TransferToClientRequest(data=xla_data_pb2.GlobalDataHandle(handle=handle))


def _conversation(server: RpcServer, session: SessionEntry) -> MultiplexedStream:
    found: list[MultiplexedStream] = []

    def is_open() -> bool:
        found[:] = [each for each in set(server._conversations._open) if each._session is session]
        return bool(found)

    until(is_open)
    return found[0]


def _answered(client: Client) -> bool:
    """Return whether a small call is answered soon."""
    client.ask("xla.XlaExtensionService/DescribeSession", extension_pb2.DescribeSessionRequest())
    client.ask("xla.XlaService/GetComputationGraphStats", xla_pb2.ComputationGraphStatsRequest())
    answers: list[Any] = []
    reader = threading.Thread(
        target=lambda: answers.extend([client.read(), client.read()]), daemon=True
    )
    reader.start()
    reader.join(100)
    return len(answers) == 2


def test_a_stream_is_idle_when_all_calls_are_answered(
    server: RpcServer, connected: Callable[[], tuple[Client, SessionEntry]]
) -> None:
    client, session = connected()
    download = _download(session)
    assert _answered(client)
    silence = _conversation(server, session)._stream.silence
    until(silence.is_idle)
    # More than is on its way without being read.
    for _ in range(16):
        client.ask("xla.XlaService/TransferToClient", download)
    until(lambda: not silence.is_idle())
    for _ in range(16):
        client.read()
    until(silence.is_idle)


def _ended_by_the_client(client: Client, conversation: MultiplexedStream) -> None:
    client.close()


def _ended_for_silence(client: Client, conversation: MultiplexedStream) -> None:
    assert conversation._stream.silence.end(time.monotonic(), "silent for too long")


def _cancelled(client: Client, conversation: MultiplexedStream) -> None:
    """Cancel it in another thread than that which reads the stream."""
    conversation._cancellation.cancel(UnavailableError("the server stops"))


@pytest.fixture
def _no_collection() -> Iterator[None]:
    """Objects in cycles stay."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("end", [_ended_by_the_client, _ended_for_silence, _cancelled])
@pytest.mark.parametrize("unread", [0, 16])
def test_a_stream_that_has_ended_leaves_nothing_behind(
    server: RpcServer,
    connected: Callable[[], tuple[Client, SessionEntry]],
    end: Callable[[Client, MultiplexedStream], None],
    unread: int,
) -> None:
    """grpc's call would keep answers that were not read, until Python looks for cycles.

    Where many were not, one thread waits for the client to read and another for its next call.
    """
    client, session = connected()
    assert _answered(client)
    for _ in range(unread):
        client.ask("xla.XlaService/TransferToClient", _download(session))
    left = _left_behind(client, _conversation(server, session), end)
    until(lambda: not any(each() for each in left))


def _left_behind(
    client: Client,
    conversation: MultiplexedStream,
    end: Callable[[Client, MultiplexedStream], None],
) -> list[Callable[[], object]]:
    """Return weak references to the parts of an ended stream."""
    until(lambda: not conversation._calls)
    stream = conversation._stream
    until(lambda: bool(stream.silence.since))
    # Messages are received by what has grpc's call.
    left = [weakref.ref(each) for each in (conversation, stream, stream._context, stream._requests)]
    end(client, conversation)
    client.close()
    return left


def test_a_client_that_does_not_read_takes_no_threads_from_others(
    server: RpcServer, connected: Callable[[], tuple[Client, SessionEntry]]
) -> None:
    silent, session = connected()
    download = _download(session)
    for _ in range(64):
        silent.ask("xla.XlaService/TransferToClient", download)
        silent.ask(
            "xla.XlaService/GetComputationGraphStats", xla_pb2.ComputationGraphStatsRequest()
        )
    conversation = _conversation(server, session)
    until(lambda: not conversation._has_capacity.is_set())
    other, _ = connected()
    assert _answered(other)
    # Nor is memory, for its calls are begun as it reads.
    assert conversation._backlog_bytes <= MAX_BACKLOG_BYTES + VALUE.nbytes + 1024
    answers = [silent.read() for _ in range(128)]
    assert sorted(answer.id for answer in answers) == list(range(1, 129))
    assert sum(len(answer.response) > VALUE.nbytes for answer in answers) == 64
