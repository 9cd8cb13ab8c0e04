from collections.abc import Iterator

import pytest

import xla_client as xc
from tests.e2e.process import start_server

QUEUE = 8
"""Items that each feed of the server may have."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    flags = ("--platform", "interpreter", "--feed-items", str(QUEUE), "--feed-bytes", "4096")
    with start_server(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server.address


@pytest.fixture
def client(address: str) -> Iterator[xc.Client]:
    with xc.connect(address, timeout=30) as client:
        yield client
