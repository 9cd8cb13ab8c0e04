"""Connections cut in each phase of Execute, Run, RunBatch, Launch, WaitForExecution and Converse.

Each test holds its session open beside the connection that is cut: what the calls had must be free
in it at once, and everything is when it ends.
"""

import contextlib
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess
from tests.fault.calls import (
    CALLS,
    begin_batch,
    begin_conversation,
    begin_execute,
    begin_run,
    feed,
    kept_run,
    launch,
    upload,
)
from tests.fault.operator_server import calling, operator_s_server
from tests.fault.plain import Plain, ends_unavailable, token_of, until
from tests.fault.programs import ARRAY, ONES, double, endless, gated
from tests.fault.proxy import Proxy
from tests.fault.rounds import IS_SOAK, rounds
from tests.unit.sessions.sample_runs import argument_of, value
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_to_proto

THREADS = 3
"""Threads of the server for calls that run programs, and as many for launched executions."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    with operator_s_server(directory, "--execute-threads", str(THREADS)) as running:
        yield running


@pytest.fixture
def client(other: Plain, proxy: Proxy) -> Iterator[Plain]:
    """The client whose connection is cut."""
    client = Plain(proxy.address)
    yield client
    client.close()


@pytest.fixture
def beside(server: ServerProcess, client: Plain) -> Iterator[Plain]:
    """The same session over a connection that stays."""
    beside = client.beside(server.address)
    yield beside
    beside.end_session()


@pytest.mark.parametrize("where", [0, 0.4, 1])
def test_a_request_that_did_not_arrive_whole_was_not_made(proxy, client, beside, where):
    executable = client.compile(double())
    data = upload(client)
    sent = value(ONES), value(ONES)
    add = client.compile(_sum_of_three())
    # Donated values are gone once a run begins.
    run = kept_run(add, *sent, argument_of(data.handle, donate=True))
    literal = literal_to_proto(Literal.from_numpy(ONES))
    requests = {
        "TransferToServer": xla_pb2.TransferToServerRequest(literal=literal),
        "Execute": xla_pb2.ExecuteRequest(handle=executable, arguments=[data]),
        "Run": run,
        "RunBatch": extension_pb2.RunBatchRequest(runs=[run, run]),
        "Launch": extension_pb2.LaunchRequest(run=run),
    }
    before = beside.describe().use
    for _ in rounds():
        for name, request in requests.items():
            for begin in (client.begin, client.converse):
                client.connect()
                assert proxy.is_quiet()
                # The headers and frames come to more than what is left out at the end; with
                # half of its headers a call would be one of its connection, in no session.
                proxy.cut_at(30 + int(where * request.ByteSize()))
                ends_unavailable(begin(name, request))
    after = beside.describe().use
    assert after.device_bytes == before.device_bytes
    assert after.handles == before.handles
    assert beside.executions() == (0, 0)
    # And the client goes on where it was.
    assert client("Run", run).results[0].outputs


def _sum_of_three() -> xc.Computation:
    builder = xc.Builder("sum")
    x, y, z = (builder.parameter(number, ARRAY) for number in range(3))
    return builder.build(x + y + z)


def test_a_call_cut_off_in_line_is_not_made(server, proxy, client, beside):
    """All threads for programs are taken; the calls of the client wait for one."""
    executable, others = client.compile(double()), Plain(server.address)
    holding, held = others.compile(calling("held")), upload(others)
    data = upload(client)
    before = beside.describe().use
    may_end = server.log.with_name("go")
    for _ in rounds():
        stream = client.stream("Infeed")
        stream.send(extension_pb2.InfeedRequest(start=extension_pb2.InfeedStart()))
        assert stream.receive().WhichOneof("part") == "started"
        busy = [begin_execute(others, holding, held) for _ in range(THREADS)]
        until(lambda: others.executions()[0] == THREADS)
        donating = kept_run(executable, argument_of(data.handle, donate=True))
        passed = proxy.to_server
        waiting = [
            begin_execute(client, executable, data),
            client.begin("Run", donating),
            client.begin("RunBatch", extension_pb2.RunBatchRequest(runs=[donating])),
        ]
        assert proxy.wait_for(lambda passed=passed: proxy.to_server > passed + 300)
        proxy.cut()
        for call in waiting:
            ends_unavailable(call)
        # The server notices the end of the connection, with all its calls, a little later.
        until(lambda: not is_streaming(beside))
        beside.describe()
        may_end.touch()
        for call in busy:
            others("Unregister", xla_pb2.UnregisterRequest(data=[call.result().output]))
        may_end.unlink()
        # Later calls run later: the earlier ones have run before these end.
        for _ in range(THREADS):
            output = begin_execute(beside, executable, data).result().output
            beside("Unregister", xla_pb2.UnregisterRequest(data=[output]))
        after = beside.describe().use
        assert (after.device_bytes, after.handles) == (before.device_bytes, before.handles)
    others.end_session()


def is_streaming(client: Plain) -> bool:
    feeds = client("DescribeFeeds", extension_pb2.DescribeFeedsRequest())
    return bool(feeds.infeed.is_streaming)


def test_a_call_cut_off_while_its_argument_is_to_come_is_not_made(proxy, client, beside):
    executable, gate = client.compile(double()), client.compile(gated())
    data = upload(client)
    before = beside.describe().use.device_bytes
    for _ in rounds():
        launched = launch(beside, gate, argument_of(data.handle))
        coming = launched.outputs[0].outputs[0]
        until(lambda: beside.executions() == (1, 1))
        donating = kept_run(executable, argument_of(coming.handle, donate=True))
        waiting = [begin(client, executable, coming) for begin in CALLS.values()]
        waiting += [
            client.begin("Run", donating),
            client.begin("TransferToClient", xla_pb2.TransferToClientRequest(data=coming)),
            client.begin(
                "WaitForExecution", xla_pb2.WaitForExecutionRequest(execution=launched.execution)
            ),
        ]
        client.describe()
        ended = [call for call in waiting if isinstance(call, grpc.Future) and call.done()]
        assert [(call.code(), call.details()) for call in ended] == []
        proxy.cut()
        for call in waiting:
            ends_unavailable(call)
        feed(beside)
        # A launched execution belongs to the session, and goes on.
        wait = xla_pb2.WaitForExecutionRequest(execution=launched.execution)
        assert beside("WaitForExecution", wait).output == coming
        until(lambda: beside.executions() == (0, 0))
        beside("Unregister", xla_pb2.UnregisterRequest(data=[coming]))
        assert beside.describe().use.device_bytes == before


@pytest.mark.parametrize("program", [endless, gated])
@pytest.mark.parametrize("name", list(CALLS))
def test_a_call_cut_off_while_it_runs_stops(proxy, client, beside, name, program):
    """In the middle of computing, and while it waits for an infeed."""
    executable, data = client.compile(program()), upload(client)
    before = beside.describe().use
    for _ in rounds():
        call = CALLS[name](client, executable, data)
        until(lambda: beside.executions()[0] == (3 if name == "RunBatch" else 1))
        proxy.cut()
        ends_unavailable(call)
        until(lambda: beside.executions() == (0, 0))
        after = beside.describe().use
        assert (after.device_bytes, after.handles) == (before.device_bytes, before.handles)
    # Calls that waited have used nothing that later ones need.
    gate = client.compile(gated())
    feed(beside)
    until(lambda: begin_execute(client, gate, data).result(timeout=100).output.handle != 0)


def test_what_was_launched_goes_on_without_its_connection(proxy, client, beside):
    gate, loop = client.compile(gated()), client.compile(endless())
    data = argument_of(upload(client).handle)
    for _ in rounds():
        first, stuck = launch(client, gate, data), launch(client, loop, data)
        coming = first.outputs[0].outputs[0]
        chained = launch(client, client.compile(double()), argument_of(coming.handle))
        waits = [
            xla_pb2.WaitForExecutionRequest(execution=each.execution)
            for each in (first, stuck, chained)
        ]
        waiting = [client.begin("WaitForExecution", wait) for wait in waits]
        client.describe()
        proxy.cut()
        for call in waiting:
            ends_unavailable(call)
        assert beside.executions() == (2, 3)
        feed(client)
        output = client("WaitForExecution", waits[2]).output
        fetched = client("TransferToClient", xla_pb2.TransferToClientRequest(data=output))
        assert fetched.literal.f32s[0] == 4
        cancel = extension_pb2.CancelExecutionRequest(execution=stuck.execution)
        assert client("CancelExecution", cancel).was_running
        until(lambda: beside.executions() == (0, 0))


@pytest.mark.parametrize("after", [1, ONES.nbytes // 3])
def test_an_answer_that_was_cut_off_leaves_nothing_behind(proxy, client, beside, after):
    gate, data = client.compile(gated()), upload(client)
    before = beside.describe().use

    def begin_download(client: Plain, gate: Any, data: Any) -> Any:
        launched.append(launch(beside, gate, argument_of(data.handle)).outputs[0].outputs[0])
        request = xla_pb2.TransferToClientRequest(data=launched[-1])
        return client.begin("TransferToClient", request)

    for _ in rounds():
        launched: list[Any] = []
        for begin in (begin_run, begin_batch, begin_conversation, begin_download):
            client.connect()
            call = begin(client, gate, data)
            runs = 3 if begin is begin_batch else 1
            until(lambda runs=runs: beside.executions()[0] == runs)
            # Once frames of the connection itself have passed, the answer is the next data.
            assert proxy.is_quiet(0.3)
            proxy.cut_at(after, towards="client")
            feed(beside, runs)
            ends_unavailable(call)
        until(lambda: beside.executions() == (0, 0))
        beside("Unregister", xla_pb2.UnregisterRequest(data=launched))
        use = beside.describe().use
        assert (use.device_bytes, use.handles) == (before.device_bytes, before.handles)


def test_a_value_whose_handle_was_cut_off_goes_with_its_session(proxy, client, beside):
    """The server cannot tell whether the client has read the answer; `other` sees the end."""
    gate, data = client.compile(gated()), upload(client)
    run = kept_run(gate, argument_of(data.handle))
    execute = xla_pb2.ExecuteRequest(handle=gate, arguments=[data])
    before = beside.describe().use.device_bytes
    for number in rounds():
        client.connect()
        calls = [
            client.begin("Execute", execute),
            client.begin("Run", run),
            client.begin("RunBatch", extension_pb2.RunBatchRequest(runs=[run])),
            client.converse("Execute", execute),
        ]
        until(lambda: beside.executions()[0] == 4)
        assert proxy.is_quiet(0.3)
        proxy.cut_at(1, towards="client")
        feed(beside, 1)
        for call in calls:
            ends_unavailable(call)
        until(lambda: beside.executions() == (0, 0))
        # One has ended well, and the others were stopped.
        kept = beside.describe().use.device_bytes - before
        assert 1 <= kept // ONES.nbytes <= number + 1
    shape = client("GetShape", xla_pb2.GetShapeRequest(data=data)).shape
    assert list(shape.dimensions) == [len(ONES)]


def test_a_client_whose_connection_is_cut_says_so_and_goes_on(server, proxy, other):
    with (
        xc.connect(proxy.address, shared_memory=False) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        beside = Plain(server.address, token_of(client))
        loop, add = client.compile(endless()), client.compile(double())
        held = client.to_device(ONES)
        run = client.compile(gated()).submit(held)
        for call in (lambda: loop(held), lambda: loop.run(held), lambda: loop.run_batch([[held]])):
            ended = threads.submit(call)
            until(lambda: beside.executions()[0] == 2)
            proxy.cut()
            with pytest.raises(xc.UnavailableError):
                ended.result(100)
            until(lambda: beside.executions()[0] == 1)
        # The session is the same and still has its values.
        np.testing.assert_array_equal(add.run(held), ONES * 2)
        waiting = run.future()
        proxy.cut()
        with pytest.raises(xc.UnavailableError):
            waiting.result(100)
        client.device().infeed().put(np.float32(2))
        np.testing.assert_array_equal(run.buffers.to_numpy(), ONES * 3)
        until(lambda: beside.executions() == (0, 0))
    beside.close()


def test_many_clients_that_are_cut_in_all_phases_leave_nothing(server, proxy, other):
    count = 200 if IS_SOAK else 12
    with contextlib.ExitStack() as stack:
        ready, sessions = [], []
        for number in range(count):
            client = Plain(proxy.address)
            stack.callback(client.close)
            beside = client.beside(server.address)
            stack.callback(beside.end_session)
            sessions.append(beside)
            program = (double, endless, gated)[number % 3]
            ready.append((client, client.compile(program()), upload(client)))
        begins = itertools.cycle(itertools.chain(*zip(*[CALLS.values()] * 3, strict=True)))
        calls = [begin(*each) for begin, each in zip(begins, ready, strict=False)]
        proxy.cut()
        for call in calls:
            with contextlib.suppress(grpc.RpcError):
                call.result(timeout=60)
        for session in sessions:
            until(lambda session=session: session.executions() == (0, 0))
