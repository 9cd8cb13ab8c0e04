import os
from collections.abc import Iterator

import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess, start_ranks, start_server

RANKS = tuple(map(int, os.environ.get("RANKS", "2").split(",")))
"""Numbers of processes to test with; `make test-mpi` names all."""


@pytest.fixture(scope="module", params=RANKS)
def ranks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server of eight devices in several processes."""
    count = request.param
    flags = ("--platform", "cpu", "--devices", str(8 // count))
    with start_ranks(tmp_path_factory.mktemp("ranks"), count, *flags) as running:
        yield running


@pytest.fixture
def client(ranks: ServerProcess) -> Iterator[xc.Client]:
    with xc.connect(ranks.address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module", params=RANKS)
def fast(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[xc.Client]:
    """A client of a server of eight devices in several processes, which lets MPI reduce."""
    count = request.param
    flags = ("--platform", "cpu", "--devices", str(8 // count), "--fast-collectives")
    with (
        start_ranks(tmp_path_factory.mktemp("fast"), count, *flags) as running,
        xc.connect(running.address, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xc.Client]:
    """A client of a server of eight devices in one process."""
    flags = ("--platform", "cpu", "--devices", "8")
    with (
        start_server(tmp_path_factory.mktemp("alone"), *flags) as running,
        xc.connect(running.address, timeout=60) as client,
    ):
        yield client
