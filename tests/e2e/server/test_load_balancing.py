"""Clients of two servers behind a load balancer that leads the calls of a key to one of them."""

import zlib
from collections.abc import Iterator, Sequence
from concurrent import futures

import grpc
import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import start_server
from xla_contract.targets import ROUTING_KEY


class _Balancer(grpc.GenericRpcHandler):
    """A proxy of all rpcs as byte streams, by the hash of the key; records the backend of each."""

    def __init__(self, servers: Sequence[grpc.Channel]) -> None:
        self._servers = servers
        self.keys: list[set[str]] = [set() for _ in servers]
        self.moved: dict[str, int] = {}
        """Keys whose calls go to another server from now on."""

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        headers = [each for each in call.invocation_metadata if each[0] != "user-agent"]
        key = dict(headers)[ROUTING_KEY]
        number = self.moved.get(key, zlib.crc32(key.encode()) % len(self._servers))
        self.keys[number].add(key)
        method = self._servers[number].stream_stream(call.method)

        def forward(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            upstream = method(requests, metadata=headers)
            context.add_callback(upstream.cancel)
            try:
                yield from upstream
            except grpc.RpcError:
                context.set_trailing_metadata(upstream.trailing_metadata() or ())
                context.abort(upstream.code(), upstream.details())

        return grpc.stream_stream_rpc_method_handler(forward)


@pytest.fixture(scope="module")
def balanced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, _Balancer]]:
    """The address of a load balancer with two servers, and the balancer."""
    flags = ("--platform", "interpreter", "--connection-share", "1")
    with (
        start_server(tmp_path_factory.mktemp("one"), *flags) as one,
        start_server(tmp_path_factory.mktemp("two"), *flags) as two,
        grpc.insecure_channel(one.address) as first,
        grpc.insecure_channel(two.address) as second,
        futures.ThreadPoolExecutor(64) as threads,
    ):
        balancer = _Balancer((first, second))
        server = grpc.server(threads, handlers=[balancer])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}", balancer
        server.stop(None).wait()


def _key_of(balancer: _Balancer, number: int) -> str:
    """A key that the balancer leads to a server."""
    keys = (f"client {n}" for n in range(100))
    return next(key for key in keys if zlib.crc32(key.encode()) % 2 == number)


@pytest.mark.parametrize("number", [0, 1])
def test_all_calls_of_a_client_reach_the_server_of_its_key(
    balanced: tuple[str, _Balancer], number: int
) -> None:
    address, balancer = balanced
    key = _key_of(balancer, number)
    with xc.connect(address, routing_key=key, shared_memory=False, timeout=60) as client:
        assert client.routing_key == key
        value = client.to_device(np.arange(300_000.0))
        assert value.to_numpy()[3] == 3
    assert key in balancer.keys[number]
    assert key not in balancer.keys[1 - number]


def test_clients_have_keys_of_their_own(balanced: tuple[str, _Balancer]) -> None:
    address, balancer = balanced
    with xc.connect(address) as one, xc.connect(address) as other:
        assert one.routing_key != other.routing_key
        assert {one.routing_key, other.routing_key} <= balancer.keys[0] | balancer.keys[1]


def test_a_session_goes_on_with_the_key_that_it_began_with(
    balanced: tuple[str, _Balancer],
) -> None:
    address, balancer = balanced
    client = xc.connect(address, routing_key=_key_of(balancer, 0), timeout=60)
    value = client.to_device(np.arange(3.0))
    kept, key, token = value.handle, client.routing_key, client.detach()
    with xc.connect(address, session=token, routing_key=key) as again:
        np.testing.assert_array_equal(again.adopt(kept).to_numpy(), [0, 1, 2])
        with pytest.raises(xc.NotFoundError, match="live session"):
            xc.connect(address, session=token, routing_key=_key_of(balancer, 1))


def test_a_client_whose_key_moves_goes_on_with_another_session(
    balanced: tuple[str, _Balancer],
) -> None:
    address, balancer = balanced
    with xc.connect(address, timeout=60) as client:
        value = client.to_device(np.arange(3.0))
        (other,) = (n for n in range(2) if client.routing_key not in balancer.keys[n])
        balancer.moved[client.routing_key] = other
        with pytest.raises(xc.LostError):
            value.to_numpy()
        np.testing.assert_array_equal(client.to_device(np.arange(4.0)).to_numpy(), [0, 1, 2, 3])
        assert client.routing_key in balancer.keys[other]


@pytest.mark.parametrize("key", ["", "k" * 129, "two\nlines", "\u00e9"])
def test_a_key_must_be_metadata(key: str) -> None:
    with pytest.raises(xc.InvalidArgumentError, match="routing_key must be 1 to 128 printable"):
        xc.connect("127.0.0.1:1", routing_key=key)
