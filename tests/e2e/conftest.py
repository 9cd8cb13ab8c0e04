from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import xla_client as xc
from tests.e2e.process import Raw, ServerProcess, serving, start_server
from xla_client import Builder, ElementType, Op, Shape, ops

# Two devices and small queues; modules that need other flags have a fixture of this name.
server = serving("--devices", "2", "--feed-items", "4", platforms=("cpu",))


@pytest.fixture(scope="module")
def address(server: ServerProcess) -> str:
    return server.address


@pytest.fixture
def client(address: str) -> Iterator[xc.Client]:
    with xc.connect(address, timeout=60) as connected:
        yield connected


@pytest.fixture(scope="session")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that ends sessions half a second after their clients have gone.

    For tests that wait until it has: between two steps of any other test there may be more.
    """
    flags = ("--platform", "interpreter", "--session-grace-seconds", "0.5")
    with start_server(tmp_path_factory.mktemp("forgetful"), *flags) as running:
        yield running.address


@pytest.fixture
def raw(address: str) -> Iterator[Raw]:
    client = Raw(address)
    yield client
    client.close()


@pytest.fixture(scope="session")
def run() -> Iterator[Callable[..., Any]]:
    """Evaluates a function of Ops on arrays, on a server; without arrays it takes the builder."""
    with xc.Local(timeout=60) as client:

        def evaluate(function: Callable[..., Op | Sequence[Op]], *arguments: Any) -> Any:
            builder = Builder("lib")
            parameters = [
                builder.parameter(number, Shape.array(ElementType.from_dtype(a.dtype), a.shape))
                for number, a in enumerate(arguments)
            ]
            root = function(*(parameters or [builder]))
            if not isinstance(root, Op):
                root = ops.tuple(root)
            return client.compile(builder.build(root)).run(*arguments)

        yield evaluate
