"""Clients that do not read, and full queues: the others go on, and memory is bounded."""

from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import psutil
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess, serving
from tests.fault.calls import begin_execute, feed, is_served, kept_run, launch, upload
from tests.fault.plain import Plain, ends_unavailable, until
from tests.fault.programs import ARRAY, COUNT, ONES, double, endless, gated
from tests.fault.proxy import Proxy
from tests.fault.rounds import rounds
from tests.unit.sessions.sample_runs import argument_of
from xla_client import ops
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_to_proto
from xla_contract.wire.literals.value_proto import value_from_proto

MEBIBYTE = 1 << 20
ITEMS = 4
"""Capacity of the server's queues."""
LAUNCHES = 3
LARGE = np.arange(16 * MEBIBYTE, dtype=np.float32)


server = serving(
    *("--feed-items", str(ITEMS), "--short-threads", "2", "--session-launches", str(LAUNCHES))
)


@pytest.fixture
def beside(server: ServerProcess) -> Iterator[Plain]:
    """A session over a connection that stays; everything is as before when it ends."""
    observer = Plain(server.address)
    before = observer.counters()
    beside = Plain(server.address)
    yield beside
    beside.end_session()
    until(lambda: observer.counters() == before)
    observer.end_session()


@pytest.fixture
def client(proxy: Proxy, beside: Plain) -> Iterator[Plain]:
    """The same session over a connection that is cut."""
    client = Plain(proxy.address, beside.token)
    yield client
    client.close()


def resident_bytes(server: ServerProcess) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


def feeds(client: Plain) -> Any:
    return client("DescribeFeeds", extension_pb2.DescribeFeedsRequest())


def numbers() -> xc.Computation:
    """Sends arrays of COUNT to outfeed, of ones, twos and so on, without an end."""
    state = xc.Shape.parse(f"(f32[{COUNT}], token[])")
    always, body, builder = xc.Builder("always"), xc.Builder("body"), xc.Builder("numbers")
    always.parameter(0, state)
    parameter = body.parameter(0, state)
    value, token = (ops.get_tuple_element(parameter, n) for n in range(2))
    step = body.build(ops.tuple([value + np.float32(1), ops.outfeed_with_token(value, token)]))
    init = ops.tuple([builder.parameter(0, ARRAY), builder.create_token()])
    loop = ops.while_(always.build(always.constant(True)), step, init)
    return builder.build(ops.get_tuple_element(loop, 0))


def test_downloads_that_are_not_read_take_little_memory(server, proxy, client, beside):
    literal = literal_to_proto(Literal.from_numpy(LARGE))
    data = beside("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data
    is_served(beside)
    before, taken = beside.describe().use.device_bytes, resident_bytes(server)
    for _ in rounds():
        downloads = [
            client.stream("Download", extension_pb2.DownloadRequest(data=data)) for _ in range(4)
        ]
        for download in downloads:
            assert download.receive().chunk.offset == 0
        is_served(beside)
        assert resident_bytes(server) - taken < LARGE.nbytes
        # One that reads on gets all of it, as the others could.
        size = sum(len(each.chunk.data) for each in downloads[0].call)
        assert 0 < LARGE.nbytes - size <= 4 * MEBIBYTE
        proxy.cut()
        client.connect()
    assert beside.describe().use.device_bytes == before


def test_answers_that_are_not_read_take_little_memory(server, proxy, client, beside):
    literal = literal_to_proto(Literal.from_numpy(LARGE[: 2 * MEBIBYTE]))
    data = beside("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data
    request = xla_pb2.TransferToClientRequest(data=data)
    is_served(beside)
    before, taken = beside.describe().use.device_bytes, resident_bytes(server)
    for _ in rounds():
        talk = client.stream("Converse")
        for number in range(32):
            message = extension_pb2.ConverseRequest(
                id=number,
                method="xla.XlaService/TransferToClient",
                request=request.SerializeToString(),
            )
            talk.send(message)
        proxy.pause()
        is_served(beside)
        assert resident_bytes(server) - taken < 128 * MEBIBYTE
        proxy.resume()
        assert {talk.receive().id for _ in range(32)} == set(range(32))
        for number in range(32):
            message.id = number
            talk.send(extension_pb2.ConverseRequest.FromString(message.SerializeToString()))
        talk.receive()
        proxy.cut()
        client.connect()
    assert beside.describe().use.device_bytes == before


def outfeed(client: Plain, first: int = 0) -> Any:
    """A stream with more credit than free capacity in the queue, not read."""
    stream = client.stream("Outfeed")
    credit = extension_pb2.Credit(items=1 << 20, bytes=1 << 40)
    start = extension_pb2.OutfeedStart(credit=credit, next_sequence=first)
    stream.send(extension_pb2.OutfeedRequest(start=start))
    assert stream.receive().WhichOneof("part") == "started"
    return stream


def test_an_outfeed_that_is_not_read_holds_up_its_program_alone(server, proxy, client, beside):
    executable, data = beside.compile(numbers()), upload(beside)
    is_served(beside)
    taken = resident_bytes(server)
    for _ in rounds():
        stream = outfeed(client)
        proxy.pause()
        launched = launch(beside, executable, argument_of(data.handle))
        until(lambda: feeds(beside).outfeed.items == ITEMS and feeds(beside).outfeed.waiters)
        is_served(beside)
        assert resident_bytes(server) - taken < 64 * MEBIBYTE
        assert beside.executions() == (1, 1)
        proxy.resume()
        # All values arrive, and those without acknowledgement come once more after a cut.
        found = received(stream, 2)
        proxy.cut()
        client.connect()
        assert received(outfeed(client), ITEMS)[:2] == found == [1.0, 2.0]
        cancel = extension_pb2.CancelExecutionRequest(execution=launched.execution)
        assert beside("CancelExecution", cancel).was_running
        until(lambda: beside.executions() == (0, 0))
        proxy.cut()
        client.connect()
        until(lambda: not feeds(beside).outfeed.is_streaming)
        beside("ResetDevice", xla_pb2.ResetDeviceRequest())
        assert feeds(beside).outfeed.bytes == 0


def received(stream: Any, count: int) -> list[float]:
    """The first elements of so many items."""
    found: list[float] = []
    while len(found) < count:
        items = stream.receive().items.items
        found += [float(value_from_proto(item.value).to_numpy()[0]) for item in items]
    return found[:count]


def test_a_full_infeed_waits_without_threads_and_keeps_what_it_took(proxy, client, beside):
    item = literal_to_proto(Literal.from_numpy(np.float32(1)))
    request = xla_pb2.TransferToInfeedRequest(literal=item)
    for _ in rounds():
        feed(client, ITEMS)
        waiting = [client.begin("TransferToInfeed", request) for _ in range(20)]
        until(lambda: len(feeds(beside).infeed.waiters) >= 16)
        is_served(beside)
        proxy.cut()
        for call in waiting:
            ends_unavailable(call)
        until(lambda: not feeds(beside).infeed.waiters)
        assert feeds(beside).infeed.items == ITEMS
        # Each one popped admits one.
        gate, data = beside.compile(gated()), upload(beside)
        output = begin_execute(beside, gate, data).result(timeout=100).output
        assert feeds(beside).infeed.items == ITEMS - 1
        beside("Unregister", xla_pb2.UnregisterRequest(data=[data, output]))
        beside("ResetDevice", xla_pb2.ResetDeviceRequest())
    use = beside.describe().use
    assert (use.queued_items, use.queued_bytes, use.device_bytes) == (0, 0, 0)


def test_a_program_cut_off_at_a_full_outfeed_ends(proxy, client, beside):
    executable, data = client.compile(numbers()), upload(client)
    for _ in rounds():
        call = begin_execute(client, executable, data)
        until(lambda: feeds(beside).outfeed.waiters)
        assert feeds(beside).outfeed.items == ITEMS
        proxy.cut()
        ends_unavailable(call)
        until(lambda: beside.executions() == (0, 0))
        assert feeds(beside).outfeed.items == ITEMS
        assert beside.describe().use.device_bytes == ONES.nbytes
        beside("ResetDevice", xla_pb2.ResetDeviceRequest())
    assert beside.describe().use.queued_bytes == 0


def test_a_line_of_launched_executions_that_is_full_takes_no_more(proxy, client, beside):
    loop, data = client.compile(endless()), upload(client)
    value = argument_of(data.handle)
    for _ in rounds():
        launched = [launch(client, loop, value) for _ in range(LAUNCHES)]
        # Each reserves its result and the state of its loop.
        until(lambda: beside.describe().use.device_bytes == (1 + 2 * LAUNCHES) * ONES.nbytes)
        use = beside.describe().use
        with pytest.raises(grpc.RpcError, match=f"may have {LAUNCHES} executions"):
            launch(client, loop, value)
        proxy.cut()
        after = beside.describe().use
        assert (after.device_bytes, after.handles) == (use.device_bytes, use.handles)
        for each in launched:
            cancel = extension_pb2.CancelExecutionRequest(execution=each.execution)
            assert beside("CancelExecution", cancel).was_running
        until(lambda: beside.executions() == (0, 0))
        assert beside.describe().use.device_bytes == ONES.nbytes
        client.connect()
        run = kept_run(beside.compile(double()), value)
        output = client("Run", run).results[0].outputs[0]
        beside("Unregister", xla_pb2.UnregisterRequest(data=[output]))
