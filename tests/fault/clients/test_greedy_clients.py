"""One client takes all it can of something, and another one works all the same.

Greedy is one connection, then one host with several, then one authenticated identity with several.
"""

import contextlib
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
from tests.fault.plain import Plain, until
from tests.fault.raw_peer import HEADERS, RawPeer
from xla_client import Builder, Shape, ops
from xla_client.transfers.shared_memory_socket import greet
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

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


class Connection(Plain):
    """A connection, or one of any number of sessions over it."""

    def __init__(self, address: str, bearer: str = "") -> None:
        super().__init__(address, token="", bearer=bearer)

    def call(self, name: str, request: Any) -> Any:
        return self.begin(name, request).result()

    def share(self) -> tuple["Connection", socket.socket]:
        """A session with memory shared as long as the socket is open."""
        session = self.call("OpenSession", extension_pb2.OpenSessionRequest())
        connection = greet(session.shared_memory_socket, session.token)
        _, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
        for descriptor in descriptors:
            socket.close(descriptor)
        return self.of(session.token), connection

    def allocate(self, size: int) -> None:
        self.call("AllocateShared", extension_pb2.AllocateSharedRequest(bytes=size))

    def upload(self, count: int) -> xla_data_pb2.GlobalDataHandle:
        literal = modules.literal(np.zeros(count, np.float32))
        return self.call("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data

    def begin_compiling(self, computation: xc.Computation) -> Any:
        return self.begin("Compile", self.compile_request(computation))

    def compile(self, computation: xc.Computation) -> xla_data_pb2.ExecutionHandle:
        return self.begin_compiling(computation).result().handle


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
        # One that is empty would be evicted.
        as_long_as_granted(lambda each=each: each.also().upload(1))


def take_executables(connections: Sequence[Connection]) -> None:
    for number, each in enumerate(connections):
        _compile_while_granted(each.also(), 2, f"greedy {number}")


def _compile_while_granted(session: Connection, length: int, name: str) -> None:
    numbers = iter(range(1000))
    as_long_as_granted(lambda: session.compile(chain(length + next(numbers), name)))


def take_bytes(connections: Sequence[Connection]) -> None:
    for each in connections:
        for session in (each.also(), each.also()):
            as_long_as_granted(lambda session=session: session.upload(2048))


def take_executions(connections: Sequence[Connection]) -> None:
    for session in [each.also() for each in connections for _ in range(4)]:
        request = xla_pb2.ExecuteRequest(handle=session.compile(gated()))
        runs = [session.begin("Execute", request) for _ in range(EACH)]
        until(
            lambda session=session, runs=runs: (
                session.executions()[0] + sum(run.done() for run in runs) == EACH
            )
        )
        HELD.extend(runs)


def take_calls(connections: Sequence[Connection]) -> None:
    request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=modules.shape("f32[2]"))
    # First of all: no slots are free for these calls later.
    sessions = [each.also() for each in connections for _ in range(3)]
    calls = [
        session.begin("TransferFromOutfeed", request) for session in sessions for _ in range(EACH)
    ]
    # An identity may have 56, and each of its connections one in any case.
    most = 56 + len(connections)
    until(lambda: sum(call.done() for call in calls) >= len(calls) - most)
    HELD.extend(calls)


def take_streams(connections: Sequence[Connection]) -> None:
    for session in [each.also() for each in connections for _ in range(3)]:
        for _ in range(EACH):
            stream = session.stream("Converse")
            stream.send(extension_pb2.ConverseRequest(id=1, method="none"))
            HELD.append(stream)
            try:
                stream.receive()
            except grpc.RpcError:
                break


def take_compiling(connections: Sequence[Connection]) -> None:
    for number, each in enumerate(connections):
        session = each.also()
        programs = [chain(600 + size, f"slow {number}") for size in range(12)]
        HELD.extend(map(session.begin_compiling, programs))


def take_compile_seconds(connections: Sequence[Connection]) -> None:
    for number, each in enumerate(connections):
        session = each.also()
        _compile_while_granted(session, 100, f"greedy {number}")
        with pytest.raises(grpc.RpcError, match="may compile for"):
            session.compile(chain(1, "one more"))


def take_answers(connections: Sequence[Connection]) -> None:
    for session in [each.also() for each in connections for _ in range(3)]:
        request = xla_pb2.TransferToClientRequest(data=session.upload(LARGE))
        # Without a window nothing is read.
        peer = RawPeer(
            session.address, token=session.token or "", metadata=list(session.authorization)
        )
        HELD.append(peer)
        for stream in [peer.call("TransferToClient", request) for _ in range(3 * EACH)]:
            peer.wait_for(HEADERS, stream)
        with pytest.raises(grpc.RpcError, match=r"answers .*that were not read"):
            session.call("TransferToClient", request)


def take_shared_memory(connections: Sequence[Connection]) -> None:
    for each in connections:
        for session, connection in (each.share(), each.share()):
            HELD.append(connection)
            as_long_as_granted(lambda session=session: session.allocate(1 << 16))


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
    with contextlib.closing(Connection(address, bearer)) as connection:
        modest = connection.also()
        handle = modest.compile(chain(1, "modest"))
        request = xla_pb2.ExecuteRequest(handle=handle, arguments=[modest.upload(4)])
        output = modest.call("Execute", request).output
        requested = xla_pb2.TransferToClientRequest(data=output)
        assert list(modest.call("TransferToClient", requested).literal.f32s) == [0] * 4
        requested = xla_pb2.TransferToClientRequest(data=modest.upload(LARGE))
        assert len(modest.call("TransferToClient", requested).literal.f32s) == LARGE
        sharing, memory = connection.share()
        with memory:
            sharing.allocate(1 << 16)
        for session in (sharing, modest):
            session.call("CloseSession", extension_pb2.CloseSessionRequest())
    with xc.connect(another, timeout=60, token=bearer or None) as client:
        run = client.compile(chain(1, "modest"))
        assert run.submit(np.ones(4, np.float32)).result().to_numpy().tolist() == [1] * 4


@pytest.mark.parametrize("what", ["bytes"])
def test_a_session_reports_no_more_than_its_connection_has(port: int) -> None:
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
