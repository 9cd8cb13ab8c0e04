from collections.abc import Iterator

import pytest

from tests.e2e.process import Raw, start_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server process with two devices and small queues."""
    directory = tmp_path_factory.mktemp("server")
    with start_server(directory, "--devices", "2", "--feed-items", "4") as running:
        yield running.address


@pytest.fixture
def raw(server: str) -> Iterator[Raw]:
    client = Raw(server)
    yield client
    client.close()
