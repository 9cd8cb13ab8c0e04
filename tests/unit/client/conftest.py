"""Servers in this process, with all that is behind a real one, and clients of them."""

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

import xla_client as xc
from xla_contract.descriptors import RPCS, SERVICE_NAME
from xla_server.backends.interpreter import Interpreter
from xla_server.rpc.calls.active_calls import ActiveCalls
from xla_server.rpc.calls.boundary import Boundary
from xla_server.rpc.calls.method_table import ServiceHandler
from xla_server.rpc.methods.xla_service import METHODS
from xla_server.rpc.server import RpcOptions, serving
from xla_server.rpc.threads.pools import Pools, PoolSizes
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.server_limits import Limits, Quotas
from xla_server.sessions.session_registry import SessionRegistry
from xla_server.sessions.shared_resources import SharedResources

MIB = 1 << 20
DEVICES = 3


def _sessions(shared_memory_bytes: int = 0) -> SessionRegistry:
    limits = Limits(
        max_device_bytes=64 * MIB,
        shared_memory_bytes=shared_memory_bytes,
        session_shared_memory_bytes=max(shared_memory_bytes // 4, 1),
    )
    quotas = Quotas(device_bytes=64 * MIB, handles=1000, queued_items=4)
    return SessionRegistry(
        SharedResources(Interpreter(DEVICES), limits, ThreadPool(64, "execution"), quotas)
    )


@pytest.fixture(scope="session")
def target() -> Iterator[str]:
    """The address of a server with all there is."""
    sessions = _sessions(shared_memory_bytes=32 * MIB)
    with serving(sessions, RpcOptions(listen=("127.0.0.1:0",))) as running:
        yield running.address
        assert running.device_bytes == 0


@pytest.fixture(scope="session")
def plain_target() -> Iterator[str]:
    """The address of a server with nothing but XLA's own 18 rpcs."""
    sessions, pools = _sessions(), Pools(PoolSizes())
    boundary = Boundary(sessions, ActiveCalls(), MIB)
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        handler = ServiceHandler(SERVICE_NAME, RPCS, METHODS, pools, boundary)
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}"
        server.stop(None).wait()
        pools.close(5)
    sessions.close_all()
    sessions.engine.close(5)


@pytest.fixture
def client(target: str) -> Iterator[xc.Client]:
    """A client of the server with all there is, in a session of its own."""
    with xc.connect(target) as connected:
        yield connected


@pytest.fixture
def plain_client(plain_target: str) -> Iterator[xc.Client]:
    """A client of the server with XLA's own rpcs alone."""
    with xc.connect(plain_target) as connected:
        yield connected


@pytest.fixture(params=["all", "plain"])
def either(request: pytest.FixtureRequest) -> Iterator[xc.Client]:
    """A client of each of them."""
    name = "target" if request.param == "all" else "plain_target"
    with contextlib.closing(xc.connect(request.getfixturevalue(name))) as connected:
        yield connected


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also if the process that runs the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
