"""Executions that wait for the memory of others, over real connections."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from tests.e2e.process import ServerProcess, start_server
from tests.fault.calls import is_served
from tests.fault.plain import Plain, ends_unavailable, has_drained, until
from tests.unit.sessions.sample_runs import argument_of, keep, run_request, step, value
from xla_client import Builder, Computation, Shape, ops
from xla_client.lib import sorting
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_to_proto
from xla_contract.wire.literals.value_proto import value_from_proto
from xla_contract.wire.shape_proto import shape_to_proto

LIMIT = 10 << 20
COUNT = 1 << 18
"""Elements of s32 that are sorted: in six buffers, three fifths of the limit together."""
SCALAR = Shape.parse("s32[]")

SHARES = ("--identity-share=1", "--connection-share=1")
"""All clients of a test are of one host."""


def large(count: int = COUNT, *, is_gated: bool = False) -> Computation:
    """Feed the parameter out and return it, the last of many sorted; `is_gated` by an infeed."""
    builder = Builder("large")
    last = builder.parameter(0, SCALAR)
    values = ops.broadcast(last, [count]) - builder.iota(Shape.parse(f"s32[{count}]"), 0)
    token = builder.create_token()
    if is_gated:
        fed = ops.infeed_with_token(token, SCALAR)
        values = values + ops.broadcast(ops.get_tuple_element(fed, 0), [count])
        token = ops.get_tuple_element(fed, 1)
    found = ops.reshape(ops.slice(sorting.sort(values), [count - 1], [count]), [])
    sent = ops.outfeed_with_token(found, token)
    return builder.build(ops.get_tuple_element(ops.tuple([found, sent]), 0))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, f"--max-device-bytes={LIMIT}", *SHARES, "--no-prepare") as running:
        yield running


class Client(Plain):
    """A client that has compiled `large`."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.large = self.compile(large())

    def run(self, number: int) -> Any:
        run = run_request(step(self.large.handle, value(np.int32(number)), fetch=4))
        return self.begin("Run", run)

    def launch(self, number: int, what: xla_data_pb2.ExecutionHandle | None = None) -> Any:
        handle = (what or self.large).handle
        run = run_request(step(handle, value(np.int32(number)), output=keep()))
        return self("Launch", extension_pb2.LaunchRequest(run=run))

    def hold(self, count: int = COUNT) -> None:
        """Launch an execution that keeps its memory until `go`."""
        self.launch(-1, self.compile(large(count, is_gated=True)))
        # It has a slot before it has memory.
        until(lambda: self.describe().use.device_bytes >= count * SCALAR.element_type.byte_width)

    def keep(self, byte_size: int) -> xla_data_pb2.GlobalDataHandle:
        literal = literal_to_proto(Literal.from_numpy(np.zeros(byte_size, np.uint8)))
        return self("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data

    def go(self) -> None:
        item = literal_to_proto(Literal.from_numpy(np.int32(0)))
        self("TransferToInfeed", xla_pb2.TransferToInfeedRequest(literal=item))

    def fed_out(self) -> int:
        shape = shape_to_proto(SCALAR.with_default_layout())
        request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=shape)
        return int(self("TransferFromOutfeed", request).literal.s32s[0])

    @property
    def waiting(self) -> int:
        return self.describe().server_waiting_executions


def number_of(result: extension_pb2.RunResult) -> int:
    return int(value_from_proto(result.value, max_bytes=4).to_numpy())


def refused(code: grpc.StatusCode, call: Any) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        call.result(timeout=60)
    error: Any = caught.value
    assert error.code() is code, error.details()
    return str(error.details())


@pytest.mark.parametrize("sessions", [1, 16])
def test_all_that_fit_alone_give_right_answers(server: ServerProcess, sessions: int) -> None:
    clients = [Client(server.address) for _ in range(sessions)]
    calls = [clients[number % sessions].run(number) for number in range(16)]
    answers = [call.result(timeout=60).results[0] for call in calls]
    assert [number_of(each) for each in answers] == list(range(16))
    until(lambda: clients[0].waiting == 0)


def test_runs_of_a_batch_and_launched_ones_wait_too(server: ServerProcess) -> None:
    client = Client(server.address)
    launched = [client.launch(number) for number in range(8)]
    runs = [
        run_request(step(client.large.handle, value(np.int32(number)), fetch=4))
        for number in range(8)
    ]
    answer = client("RunBatch", extension_pb2.RunBatchRequest(runs=runs))
    assert [number_of(each.response.results[0]) for each in answer.outcomes] == list(range(8))
    for number, each in enumerate(launched):
        wait = xla_pb2.WaitForExecutionRequest(execution=each.execution)
        data = client("WaitForExecution", wait).output
        literal = client("TransferToClient", xla_pb2.TransferToClientRequest(data=data)).literal
        assert literal.s32s[0] == number


def test_they_run_in_the_order_in_which_they_came(server: ServerProcess) -> None:
    client = Client(server.address)
    client.hold()
    for number in range(6):
        client.launch(number)
        until(lambda number=number: client.waiting == number + 1)  # type: ignore[misc]
    assert client.executions()[0] == 1  # Those that wait have no slots.
    client.go()
    assert [client.fed_out() for _ in range(7)] == [-1, *range(6)]


def test_small_programs_of_anybody_pass_those_that_wait(server: ServerProcess) -> None:
    client, other = Client(server.address), Plain(server.address)
    client.hold()
    call = client.run(5)
    until(lambda: client.waiting == 1)
    is_served(other)
    is_served(client)
    assert client.waiting == 1
    client.go()
    assert number_of(call.result(timeout=60).results[0]) == 5


def test_what_can_never_fit_is_refused_at_once(server: ServerProcess) -> None:
    client = Client(server.address)
    client.hold(COUNT // 2)
    client.keep(LIMIT // 3)
    another = client.run(1)
    until(lambda: client.waiting == 1)
    # Memory of values is not freed when an execution ends.
    kept = client.keep(LIMIT // 10)
    rule = r"10485760 bytes on the devices, got \d+ bytes more for an execution .* in use"
    with pytest.raises(grpc.RpcError, match=rule):
        another.result(timeout=60)
    with pytest.raises(grpc.RpcError, match=rule):
        client.run(2).result(timeout=60)
    client("Unregister", xla_pb2.UnregisterRequest(data=[kept]))
    waits = client.run(3)
    until(lambda: client.waiting == 1)
    client.go()
    assert number_of(waits.result(timeout=60).results[0]) == 3


def _deadline(client: Client) -> None:
    request = run_request(step(client.large.handle, value(np.int32(1)), fetch=4))
    with pytest.raises(grpc.RpcError) as caught:
        client("Run", request, timeout=0.5)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def _cancelled_call(client: Client) -> None:
    call = client.run(1)
    until(lambda: client.waiting == 1)
    call.cancel()


def _cancelled_execution(client: Client) -> None:
    launched = client.launch(1)
    until(lambda: client.waiting == 1)
    cancel = extension_pb2.CancelExecutionRequest(execution=launched.execution)
    assert client("CancelExecution", cancel).was_running
    wait = xla_pb2.WaitForExecutionRequest(execution=launched.execution)
    with pytest.raises(grpc.RpcError, match="CancelExecution was called"):
        client("WaitForExecution", wait)


def _ended_session(client: Client) -> None:
    other = Client(client.address)
    call = other.run(1)
    other.launch(2)
    until(lambda: client.waiting == 2)
    other("CloseSession", extension_pb2.CloseSessionRequest())
    with pytest.raises(grpc.RpcError, match="the session of the call was closed"):
        call.result(timeout=60)


@pytest.mark.parametrize("end", [_deadline, _cancelled_call, _cancelled_execution, _ended_session])
def test_who_gives_up_waits_no_more(server: ServerProcess, end: Callable[[Client], None]) -> None:
    client = Client(server.address)
    client.hold()
    end(client)
    until(lambda: client.waiting == 0)
    client.go()
    assert client.fed_out() == -1
    assert number_of(client.run(7).result(timeout=60).results[0]) == 7


def test_time_to_wait_ends(tmp_path: Path) -> None:
    flags = (f"--max-device-bytes={LIMIT}", *SHARES, "--no-prepare", "--execution-wait-seconds=0.5")
    with start_server(tmp_path, *flags) as server:
        client = Client(server.address)
        client.hold()
        launched = client.launch(1)
        reported = refused(grpc.StatusCode.RESOURCE_EXHAUSTED, client.run(1))
        rule = "may wait 0.5 s for memory, got none in that time: values"
        assert rule in reported
        wait = xla_pb2.WaitForExecutionRequest(execution=launched.execution)
        assert rule in refused(
            grpc.StatusCode.RESOURCE_EXHAUSTED, client.begin("WaitForExecution", wait)
        )


def test_a_server_that_stops_ends_their_wait(tmp_path: Path) -> None:
    flags = (f"--max-device-bytes={LIMIT}", *SHARES, "--no-prepare", "--grace-seconds=0.2")
    with start_server(tmp_path, *flags) as server:
        client = Client(server.address)
        client.hold()
        call = client.run(1)
        launched = client.launch(2)
        wait = xla_pb2.WaitForExecutionRequest(execution=launched.execution)
        waiter = client.begin("WaitForExecution", wait)
        until(lambda: client.waiting == 2)
        server.process.send_signal(signal.SIGTERM)
        for each in (call, waiter):
            assert "the server is shutting down" in ends_unavailable(each)
        has_drained(server)


def test_an_argument_that_waits_holds_its_memory(server: ServerProcess) -> None:
    """The outputs of launched executions are values, which those that wait do not wait for."""
    client = Client(server.address)
    client.hold()
    first = client.launch(4)
    until(lambda: client.waiting == 1)
    output = first.outputs[0].outputs[0].handle
    run = run_request(step(client.large.handle, argument_of(output), output=keep()))
    second = client("Launch", extension_pb2.LaunchRequest(run=run))
    client.go()
    assert [client.fed_out() for _ in range(3)] == [-1, 4, 4]
    wait = xla_pb2.WaitForExecutionRequest(execution=second.execution)
    assert client("WaitForExecution", wait).HasField("output")
