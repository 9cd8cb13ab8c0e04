"""One client takes all it can of something, and another one works all the same.

Greedy is one connection, then one host with several, then one authenticated identity with several.
"""

import contextlib
import queue
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import xla_client as xc
from tests.e2e import modules
from tests.e2e.fixed_port import FixedPort
from tests.e2e.process import start_server
from tests.fault.plain import RPCS_BY_NAME, until
from tests.fault.raw_peer import HEADERS, RawPeer
from xla_client import Builder, Shape, ops
from xla_client.transfers.shared_memory_socket import greet
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.shape_proto import shape_to_proto

FLAGS = {
    "platform": "interpreter",
    "listen": "0.0.0.0:0",
    "max-sessions": 32,
    "max-executables": 32,
    "max-program-bytes": 1 << 18,
    "max-device-bytes": 1 << 20,
    "max-executions": 16,
    "max-concurrent-calls": 64,
    "max-streams": 32,
    "max-answer-bytes": 1 << 20,
    "shared-memory-bytes": 1 << 22,
    "compile-threads": 4,
    # Sessions must not end by themselves while a test lasts.
    "session-grace-seconds": 600,
}
EACH = 20
"""Tries of a session or connection, of what it may have fewer of."""
LARGE = 5120
"""Elements of a value whose answer is counted."""


class Connection:
    """Calls in any number of sessions over one connection."""

    def __init__(self, address: str, bearer: str = "") -> None:
        self.address = address
        self.metadata = [("authorization", f"Bearer {bearer}")] if bearer else []
        self._channel = grpc.insecure_channel(
            address, options=[("grpc.use_local_subchannel_pool", 1)]
        )

    def begin(self, name: str, request: Any, token: str = "") -> Any:
        rpc = RPCS_BY_NAME[name]
        call = self._channel.unary_unary(
            rpc.path, rpc.request.SerializeToString, rpc.response.FromString
        )
        return call.future(request, metadata=self._metadata(token), timeout=120)

    def _metadata(self, token: str) -> list[tuple[str, str]]:
        return [*self.metadata, *([("xla-session", token)] if token else [])]

    def call(self, name: str, request: Any, token: str = "") -> Any:
        return self.begin(name, request, token).result()

    def converse(self, token: str) -> Any:
        """A stream that stays open."""
        rpc = RPCS_BY_NAME["Converse"]
        call: Any = self._channel.stream_stream(
            rpc.path, rpc.request.SerializeToString, rpc.response.FromString
        )
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        requests.put(extension_pb2.ConverseRequest(id=1, method="none"))
        stream = call(iter(requests.get, None), metadata=self._metadata(token), timeout=120)
        stream.add_callback(lambda: requests.put(None))
        return stream

    def open(self) -> str:
        return str(self.call("OpenSession", extension_pb2.OpenSessionRequest()).token)

    def share(self) -> tuple[str, socket.socket]:
        """A session with memory shared as long as the socket is open."""
        session = self.call("OpenSession", extension_pb2.OpenSessionRequest())
        connection = greet(session.shared_memory_socket, session.token)
        _, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
        for descriptor in descriptors:
            socket.close(descriptor)
        return str(session.token), connection

    def allocate(self, token: str, size: int) -> None:
        self.call("AllocateShared", extension_pb2.AllocateSharedRequest(bytes=size), token)

    def upload(self, token: str, count: int) -> int:
        literal = modules.literal(np.zeros(count, np.float32))
        request = xla_pb2.TransferToServerRequest(literal=literal)
        return int(self.call("TransferToServer", request, token).data.handle)

    def compile(self, token: str, computation: xc.Computation) -> Any:
        return self.begin_compiling(token, computation).result().handle

    def begin_compiling(self, token: str, computation: xc.Computation) -> Any:
        request = xla_pb2.CompileRequest()
        computation.write_to(request.computation)
        for shape in computation.program_shape.parameters:
            parameter = request.input_shape_with_layout.add()
            parameter.CopyFrom(shape_to_proto(shape.with_default_layout()))
        return self.begin("Compile", request, token)

    def running(self, token: str) -> int:
        asked = extension_pb2.DescribeSessionRequest()
        return int(self.call("DescribeSession", asked, token).use.concurrent_executions)

    def close(self) -> None:
        self._channel.close()


def chain(length: int, name: str) -> xc.Computation:
    """x + 1 + 2 + 3 and so on."""
    builder = Builder(name)
    x = builder.parameter(0, Shape.parse("f32[4]"))
    for number in range(length):
        x = x + np.float32(number)
    return builder.build(x)


def gated() -> xc.Computation:
    """The next item of infeed, which it waits for."""
    builder = Builder("gated")
    return builder.build(
        ops.get_tuple_element(
            ops.infeed_with_token(builder.create_token(), Shape.parse("f32[]")), 0
        )
    )


def as_long_as_granted(take: Callable[[], object]) -> int:
    """Take until that is refused; gives how often it was not."""
    for count in range(1000):
        try:
            take()
        except grpc.RpcError as error:
            refusal: Any = error
            assert refusal.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, refusal.details()
            return count
    raise AssertionError("nobody refused")


def take_sessions(connections: Sequence[Connection]) -> None:
    for each in connections:

        def take(each: Connection = each) -> None:
            each.upload(each.open(), 1)  # One that is empty would make room.

        as_long_as_granted(take)


def take_executables(connections: Sequence[Connection]) -> None:
    for number, each in enumerate(connections):
        token, numbers = each.open(), iter(range(1000))
        as_long_as_granted(
            lambda each=each, token=token, numbers=numbers, number=number: each.compile(
                token, chain(2 + next(numbers), f"greedy {number}")
            )
        )


def take_bytes(connections: Sequence[Connection]) -> None:
    for each in connections:
        for token in (each.open(), each.open()):
            as_long_as_granted(lambda each=each, token=token: each.upload(token, 2048))


def take_executions(connections: Sequence[Connection]) -> None:
    for each in connections:
        for _ in range(4):
            token = each.open()
            request = xla_pb2.ExecuteRequest(handle=each.compile(token, gated()))
            runs = [each.begin("Execute", request, token) for _ in range(EACH)]
            until(
                lambda each=each, token=token, runs=runs: (
                    each.running(token) + sum(run.done() for run in runs) == EACH
                )
            )
            HELD.extend(runs)


def take_calls(connections: Sequence[Connection]) -> None:
    request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=modules.shape("f32[2]"))
    # First of all: there is no room for these calls later.
    tokens = [(each, each.open()) for each in connections for _ in range(3)]
    calls = [
        each.begin("TransferFromOutfeed", request, token)
        for each, token in tokens
        for _ in range(EACH)
    ]
    # An identity may have 56, and each of its connections one in any case.
    most = 56 + len(connections)
    until(lambda: sum(call.done() for call in calls) >= len(calls) - most)
    HELD.extend(calls)


def take_streams(connections: Sequence[Connection]) -> None:
    for each in connections:
        for _ in range(3):
            token = each.open()
            for _ in range(EACH):
                stream = each.converse(token)
                HELD.append(stream)
                try:
                    next(stream)
                except grpc.RpcError:
                    break


def take_compiling(connections: Sequence[Connection]) -> None:
    for number, each in enumerate(connections):
        token = each.open()
        programs = [chain(600 + size, f"slow {number}") for size in range(12)]
        HELD.extend([each.begin_compiling(token, program) for program in programs])


def take_compile_seconds(connections: Sequence[Connection]) -> None:
    for number, each in enumerate(connections):
        token, numbers = each.open(), iter(range(1000))
        as_long_as_granted(
            lambda each=each, token=token, numbers=numbers, number=number: each.compile(
                token, chain(100 + next(numbers), f"greedy {number}")
            )
        )
        with pytest.raises(grpc.RpcError, match="may compile for"):
            each.compile(token, chain(1, "one more"))


def take_answers(connections: Sequence[Connection]) -> None:
    for each in connections:
        for token in (each.open(), each.open(), each.open()):
            value = xla_data_pb2.GlobalDataHandle(handle=each.upload(token, LARGE))
            request = xla_pb2.TransferToClientRequest(data=value)
            # Without a window nothing is read.
            peer = RawPeer(each.address, token=token, metadata=each.metadata)
            HELD.append(peer)
            for stream in [peer.call("TransferToClient", request) for _ in range(3 * EACH)]:
                peer.wait_for(HEADERS, stream)
            with pytest.raises(grpc.RpcError, match=r"answers .*that were not read"):
                each.call("TransferToClient", request, token)


def take_shared_memory(connections: Sequence[Connection]) -> None:
    for each in connections:
        for token, connection in (each.share(), each.share()):
            HELD.append(connection)
            as_long_as_granted(lambda each=each, token=token: each.allocate(token, 1 << 16))


HELD: list[Any] = []
"""Calls and streams that go on."""

GREED = {
    "sessions": take_sessions,
    "executables": take_executables,
    "bytes": take_bytes,
    "executions": take_executions,
    "calls": take_calls,
    "streams": take_streams,
    "compiling": take_compiling,
    "compile seconds": take_compile_seconds,
    "answers": take_answers,
    "shared memory": take_shared_memory,
}


TOKENS = {"greedy": "the-token-of-greedy", "modest": "the-token-of-modest"}


@pytest.fixture
def port(tmp_path: Path, what: str, request: pytest.FixtureRequest) -> Iterator[int]:
    flags = [f"--{name}={value}" for name, value in FLAGS.items()]
    if what == "compiling":
        # Where that takes some time.
        flags += ["--platform=cpu", "--no-prepare", f"--compilation-cache-dir={tmp_path}/kernels"]
        flags += ["--max-program-bytes=1GiB"]
    if what == "compile seconds":
        flags += ["--max-compile-seconds=2", "--max-program-bytes=1GiB"]
    if "identity" in request.node.name:
        lines = [f"{name} user {token}\n" for name, token in TOKENS.items()]
        (tmp_path / "tokens").write_text("".join(lines))
        flags += [f"--token-file={tmp_path}/tokens"]
    with start_server(tmp_path, *flags) as server:
        yield int(server.ready["addresses"][-1].rpartition(":")[2])
        for each in HELD:
            if isinstance(each, RawPeer | socket.socket):
                each.close()
        HELD.clear()


def works(address: str, another: str, bearer: str = "") -> None:
    """Open a session, compile, upload, run and read: as one client does, and another of streams."""
    with contextlib.closing(Connection(address, bearer)) as modest:
        token = modest.open()
        handle = modest.compile(token, chain(1, "modest"))
        argument = xla_data_pb2.GlobalDataHandle(handle=modest.upload(token, 4))
        request = xla_pb2.ExecuteRequest(handle=handle, arguments=[argument])
        output = modest.call("Execute", request, token).output
        asked = xla_pb2.TransferToClientRequest(data=output)
        assert list(modest.call("TransferToClient", asked, token).literal.f32s) == [0] * 4
        large = xla_data_pb2.GlobalDataHandle(handle=modest.upload(token, LARGE))
        asked = xla_pb2.TransferToClientRequest(data=large)
        assert len(modest.call("TransferToClient", asked, token).literal.f32s) == LARGE
        sharing, connection = modest.share()
        with connection:
            modest.allocate(sharing, 1 << 16)
        modest.call("CloseSession", extension_pb2.CloseSessionRequest(), sharing)
        modest.call("CloseSession", extension_pb2.CloseSessionRequest(), token)
    with xc.connect(another, timeout=60, token=bearer or None) as client:
        run = client.compile(chain(1, "modest"))
        assert run.submit(np.ones(4, np.float32)).result().to_numpy().tolist() == [1] * 4


@pytest.mark.parametrize("what", ["bytes"])
def test_a_session_is_told_that_it_has_no_more_than_its_connection(port: int) -> None:
    with xc.connect(f"127.0.0.1:{port}", timeout=60) as client:
        assert client.describe().quotas.device_bytes == 3 << 18


@pytest.mark.parametrize("what", GREED)
def test_one_connection_leaves_something_to_another(port: int, what: str) -> None:
    address = f"127.0.0.1:{port}"
    greedy = Connection(address)
    GREED[what]([greedy])
    works(address, address)
    assert what != "compiling" or not all(call.done() for call in HELD)
    greedy.close()


@pytest.mark.parametrize("what", GREED)
def test_one_host_leaves_something_to_another(port: int, what: str) -> None:
    greedy = [Connection(f"127.0.0.1:{port}") for _ in range(3)]
    GREED[what](greedy)
    relays = [FixedPort("127.0.0.1", port, ("127.0.0.2", 0)) for _ in range(2)]
    works(*[relay.address for relay in relays])
    assert what != "compiling" or not all(call.done() for call in HELD)
    for each in (*greedy, *relays):
        each.close()


@pytest.mark.parametrize("what", ["sessions", "bytes", "executions", "calls"])
def test_one_identity_leaves_something_to_another_one_on_its_host(port: int, what: str) -> None:
    address = f"127.0.0.1:{port}"
    greedy = [Connection(address, TOKENS["greedy"]) for _ in range(3)]
    GREED[what](greedy)
    works(address, address, TOKENS["modest"])
    for each in greedy:
        each.close()
