"""Peers that keep their windows closed, or a request to themselves: no other client waits for
them.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from grpc_health.v1 import health_pb2

from tests.e2e.process import ServerProcess, serving, start_server
from tests.fault.calls import feed, fetched_run, is_served, launch, upload
from tests.fault.plain import RPCS_BY_NAME, Plain, has_drained, until
from tests.fault.programs import ONES, gated
from tests.fault.raw_peer import DATA, HEADERS, RawPeer
from tests.fault.rounds import rounds
from tests.unit.sessions.sample_runs import argument_of
from xla_contract.descriptors import Rpc
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_server.rpc.health_check import health_fault

PEERS = 8
THREADS = 2
"""Threads of the server for each kind of calls: any two peers would take them all."""
_FLAGS = ("short", "compile", "execute")


server = serving(*(part for kind in _FLAGS for part in (f"--{kind}-threads", str(THREADS))))


@pytest.fixture
def client(server: ServerProcess, other: Plain) -> Iterator[Plain]:
    """A well-behaved connection of the peers' session."""
    client = Plain(server.address)
    yield client
    client.end_session()


@pytest.fixture
def peers(server: ServerProcess, client: Plain) -> Iterator[Callable[[], list[RawPeer]]]:
    """Makes connections whose windows are closed."""
    with contextlib.ExitStack() as open_peers:

        def make() -> list[RawPeer]:
            assert client.token
            return [
                open_peers.enter_context(RawPeer(server.address, token=client.token))
                for _ in range(PEERS)
            ]

        yield make


def converse(name: str, request: Any) -> extension_pb2.ConverseRequest:
    return extension_pb2.ConverseRequest(
        id=1, method=RPCS_BY_NAME[name].path[1:], request=request.SerializeToString()
    )


def is_answered(peer: RawPeer, streams: list[int]) -> None:
    """The server has begun to answer, and can get rid of no byte."""
    for stream in streams:
        peer.wait_for(HEADERS, stream)
    assert not peer.received


def reads_whole(peer: RawPeer, stream: int) -> None:
    """Open the window and check that the waiting data comes."""
    peer.open_window(0, 1 << 24)
    peer.open_window(stream, 1 << 24)
    until(lambda: peer.received[stream] > ONES.nbytes)


def are_answered(requested: list[tuple[RawPeer, list[int]]], other: Plain) -> None:
    """The calls of all peers are answered, which costs another client nothing."""
    for peer, streams in requested:
        is_answered(peer, streams)
    is_served(other)
    reads_whole(*next((peer, streams[0]) for peer, streams in requested))
    for peer, _ in requested:
        peer.close()


def test_answers_that_were_waited_for_hold_no_thread(peers, client, other):
    """The calls name what is not there yet, so that they are answered when it is."""
    gate, data = client.compile(gated()), upload(client)
    for _ in rounds():
        launched = launch(client, gate, argument_of(data.handle))
        coming = launched.outputs[0].outputs[0]
        calls = {
            "TransferToClient": xla_pb2.TransferToClientRequest(data=coming),
            "Execute": xla_pb2.ExecuteRequest(handle=gate, arguments=[coming]),
            "RunBatch": extension_pb2.RunBatchRequest(
                runs=[fetched_run(gate, argument_of(coming.handle))]
            ),
        }
        requested = [
            (peer, [peer.call(name, request) for name, request in calls.items()])
            for peer in peers()
        ]
        is_served(other)
        feed(client, 1 + 2 * PEERS)
        are_answered(requested, other)
        use = client.describe().use
        assert use.concurrent_executions == 0
        client("ResetDevice", xla_pb2.ResetDeviceRequest())
        client("Unregister", xla_pb2.UnregisterRequest(data=[coming]))


def test_conversations_that_are_not_read_hold_no_thread_of_short_calls(peers, client, other):
    gate, data = client.compile(gated()), upload(client)
    for _ in rounds():
        launched = launch(client, gate, argument_of(data.handle))
        coming = launched.outputs[0].outputs[0]
        batch = extension_pb2.RunBatchRequest(runs=[fetched_run(gate, argument_of(data.handle))])
        transfer = xla_pb2.TransferToClientRequest(data=coming)
        requested = []
        for peer in peers():
            waiting = peer.call("Converse", converse("TransferToClient", transfer))
            running = peer.call("Converse", converse("RunBatch", batch))
            requested.append((peer, [waiting, running]))
        is_served(other)
        feed(client, 1 + PEERS)
        are_answered(requested, other)
        until(lambda: client.executions() == (0, 0))
        client("Unregister", xla_pb2.UnregisterRequest(data=[coming]))


def is_unary(rpc: Rpc) -> bool:
    return not rpc.request_streaming and not rpc.response_streaming


@pytest.mark.parametrize("part", [0, 3, 12])
def test_requests_that_do_not_come_hold_no_thread(peers, client, other, part):
    """Send the first bytes of a message of 100 bytes, whose header of 5 bytes is included."""
    names = [rpc.name for rpc in RPCS_BY_NAME.values() if is_unary(rpc)]
    begun = (b"\0" + (100).to_bytes(4, "big") + bytes(100))[:part]
    for _ in rounds():
        made = peers()
        for peer in made:
            for name in names:
                stream = peer.call(name)
                if begun:
                    peer.send_data(stream, begun)
        # The server has taken all of it, as it answers in order.
        for peer in made:
            stream = peer.call("DescribeSession", extension_pb2.DescribeSessionRequest())
            peer.wait_for(HEADERS, stream)
        is_served(other)
        # One that comes late after all is answered.
        late = made[0]
        stream = late.call("DescribeSession")
        late.send_message(stream, extension_pb2.DescribeSessionRequest())
        late.open_window(stream, 1 << 16)
        late.wait_for(DATA, stream)
        for peer in made:
            peer.close()


def test_health_is_reported_if_nobody_reads_it(tmp_path):
    check, watch = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
    request = health_pb2.HealthCheckRequest()
    with start_server(tmp_path, "--platform", "interpreter") as server:
        client = Plain(server.address)
        with contextlib.ExitStack() as open_peers:
            made = [open_peers.enter_context(RawPeer(server.address)) for _ in range(PEERS)]
            for peer in made:
                for _ in range(PEERS):
                    peer.call(check)
                peer.wait_for(HEADERS, peer.call(watch, request))
            # A client that leaves: grpc reports its end in the thread that serves all clients.
            made[0].close()
            assert not health_fault(server.address, 20)
            is_served(client)
            # The news that it drains is for them, too.
            client.close()
            server.process.terminate()
            has_drained(server)
