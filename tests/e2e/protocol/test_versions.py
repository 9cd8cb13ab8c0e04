"""Clients and servers of different versions: each makes do with what both have."""

import concurrent.futures
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, relay
from tests.e2e.process import serving
from tests.unit.sessions.sample_runs import DOUBLE, ONES, PAIR, program
from xla_client.transport import transport
from xla_contract.descriptors import RPCS
from xla_contract.stubs.xla_extension_pb2 import Capability

CAPABILITIES: list[int] = [number for number in Capability.values() if number]
LARGE = np.arange(1 << 22, dtype=np.float32)


server = serving()


class OldServer(grpc.GenericRpcHandler):
    """A server of XLA's 18 calls alone, which another one answers."""

    def __init__(self, address: str) -> None:
        options = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
        self._channel = grpc.insecure_channel(address, options=options)
        self._paths = {rpc.path for rpc in RPCS}
        self._server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(8), handlers=(self,), options=options
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method not in self._paths:
            return None
        call = self._channel.unary_unary(details.method)

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                return call(request, timeout=30)
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                context.abort(error.code(), error.details())
                raise

        return grpc.unary_unary_rpc_method_handler(answer)

    def stop(self) -> None:
        self._server.stop(0).wait()
        self._channel.close()


def use_everything(client: xc.Client) -> None:
    """Whatever a program does with a client has its results, in one way or another."""
    double, pair = client.compile(program(DOUBLE)), client.compile(program(PAIR))
    np.testing.assert_array_equal(double.run(ONES), 2 * ONES)
    first, second = pair(ONES)
    given = client.to_device(ONES)
    np.testing.assert_array_equal(double(given, donate=(0,)).to_numpy(), 2 * ONES)
    assert given.is_deleted
    run = double.submit(double.submit(first))
    np.testing.assert_array_equal(run.result().to_numpy(), 4 * first.to_numpy())
    assert len(double.run_batch([(ONES,), (second,)])) == 2
    with pytest.raises(xc.InvalidArgumentError):
        double.run(ONES[:2])
    steps = client.pipeline()
    doubled = steps.call(double, steps.call(double, ONES))
    steps.fetch(doubled)
    steps.keep(doubled)
    fetched, kept = steps.run()
    np.testing.assert_array_equal(fetched, 4 * ONES)
    np.testing.assert_array_equal(kept.to_numpy(), 4 * ONES)
    np.testing.assert_array_equal(client.to_device(LARGE).to_numpy(), LARGE)
    relayed = client.compile(relay(3)).submit()
    with client.device().infeed(COUNT) as feed:
        feed.send(range(3))
    assert [int(value) for value in client.device().outfeed(COUNT, 3)] == [0, 1, 2]
    relayed.result()
    double.delete()


@pytest.mark.parametrize(
    "known",
    [
        *([each for each in CAPABILITIES if each != without] for without in CAPABILITIES),
        [max(CAPABILITIES) + 1, 12345],
    ],
)
def test_what_one_of_them_does_not_know_is_done_otherwise(
    address: str, monkeypatch: pytest.MonkeyPatch, known: list[int]
) -> None:
    monkeypatch.setattr(transport, "_CAPABILITIES", known)
    with xc.connect(address, timeout=60) as client:
        assert client._session.transport.capabilities == set(known) & set(CAPABILITIES)
        use_everything(client)


@pytest.fixture
def old_server(address: str) -> Iterator[Any]:
    server = OldServer(address)
    yield server
    server.stop()


def test_a_server_that_has_none_of_it_is_enough(old_server: OldServer) -> None:
    with xc.connect(old_server.address, timeout=60) as client:
        use_everything(client)
        with pytest.raises(xc.UnimplementedError, match="must have sessions with tokens"):
            client.detach()
        for ask in (client.describe, client.device().feeds):
            with pytest.raises(xc.UnimplementedError):
                ask()
    with pytest.raises(xc.UnimplementedError, match="got one that has none"):
        xc.connect(old_server.address, session="a" * 43)
