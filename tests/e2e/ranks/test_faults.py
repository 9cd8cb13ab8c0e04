"""Processes of a server that end, stop or are left alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess, start_ranks
from tests.fault.plain import until
from xla_client import Builder, Shape, ops
from xla_server.rpc.health_check import health_fault

X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module", params=["interpreter", "cpu"])
def platform(request: pytest.FixtureRequest) -> str:
    """One whose participants exchange messages, and one where they meet in native code."""
    name: str = request.param
    return name


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path, platform: str) -> Iterator[ServerProcess]:
    """A server in two processes of one device each, with these flags."""
    flags = getattr(request, "param", ())
    with start_ranks(tmp_path, 2, "--platform", platform, *flags) as running:
        yield running


@pytest.fixture(scope="module")
def lasting_pair(
    tmp_path_factory: pytest.TempPathFactory, platform: str
) -> Iterator[ServerProcess]:
    """A server in two processes of one device each, which no test ends."""
    with start_ranks(tmp_path_factory.mktemp("pair"), 2, "--platform", platform) as running:
        yield running


def rank(running: ServerProcess, number: int) -> psutil.Process:
    """The process of a rank."""
    for process in psutil.Process(running.process.pid).children(recursive=True):
        if process.environ().get("OMPI_COMM_WORLD_RANK") == str(number):
            return process
    raise AssertionError(f"no rank {number}")


SIZES = pytest.mark.parametrize("size", [4, 100_000])
"""Elements that are sent at once, and that stay with the sender until they are received."""


def waiting_sum(client: xc.Client, size: int = 4) -> Any:
    """A sum over two replicas of what each is fed."""
    builder = Builder("fed")
    fed = builder.infeed(Shape.parse(f"f32[{size}]"))
    mesh = client.mesh((2,), ("data",), replicas=2)
    return client.compile(builder.build(ops.all_reduce(fed, ops.add)), mesh=mesh)


def begun(
    client: xc.Client,
    threads: ThreadPoolExecutor,
    size: int,
    stopped: psutil.Process | None = None,
) -> Future[Any]:
    """A run in which rank 0 waits for rank 1, which is fed nothing, or `stopped` before that."""
    run = threads.submit(waiting_sum(client, size).execute_sharded)
    until(lambda: client.describe().use.concurrent_executions == 2)
    if stopped is not None:
        stopped.suspend()
    client.device(0).infeed(Shape.parse(f"f32[{size}]")).send([np.zeros(size, np.float32)])
    return run


def check_goes_on_alone(client: xc.Client, running: ServerProcess, said: str) -> None:
    """Rank 0 runs what is its own, and refuses the rest."""
    builder = Builder("own")
    run = client.compile(builder.build(builder.parameter(0, Shape.parse("f32[4]")) + 1))
    np.testing.assert_array_equal(run.run(X), X + 1)
    with pytest.raises(xc.UnavailableError, match=said):
        waiting_sum(client).execute_sharded()
    assert not health_fault(running.address, 20)
    assert "NOT_SERVING" in health_fault(running.address, 20, service="distributed")


@SIZES
def test_a_rank_that_is_killed_is_named(pair: ServerProcess, size: int) -> None:
    assert not health_fault(pair.address, 20, service="distributed")
    with xc.connect(pair.address, timeout=60) as client, ThreadPoolExecutor(1) as threads:
        run = begun(client, threads, size)
        rank(pair, 1).kill()
        with pytest.raises(xc.UnavailableError, match="rank 1, which has ended"):
            run.result()
        check_goes_on_alone(client, pair, "rank 1, which has ended")


@SIZES
@pytest.mark.parametrize("pair", [("--collective-timeout-seconds", "4")], indirect=True)
def test_a_rank_that_is_stopped_is_named(pair: ServerProcess, size: int) -> None:
    with xc.connect(pair.address, timeout=60) as client, ThreadPoolExecutor(1) as threads:
        stopped = rank(pair, 1)
        # Stopped before rank 0 waits: the time of a collective is as long as that of a silent rank.
        run = begun(client, threads, size, stopped)
        try:
            with pytest.raises(xc.UnavailableError, match="rank 1, which has not answered for 4 s"):
                run.result()
            check_goes_on_alone(client, pair, "rank 1, which has not answered")
        finally:
            stopped.kill()


@SIZES
def test_a_client_that_leaves_ends_its_run_on_all_ranks(
    lasting_pair: ServerProcess, size: int
) -> None:
    with xc.connect(lasting_pair.address, timeout=60) as watching:
        leaving = xc.connect(lasting_pair.address, timeout=60)
        with ThreadPoolExecutor(1) as threads:
            run = begun(leaving, threads, size)
            leaving.close()
            with pytest.raises(xc.XlaError):
                run.result()
        mesh = watching.mesh((2,), ("data",), replicas=2)
        builder = Builder("sum")
        total = ops.all_reduce(builder.parameter(0, Shape.parse("f32[4]")), ops.add)
        results = watching.compile(builder.build(total), mesh=mesh).execute_sharded(X)
        for result in results:
            np.testing.assert_array_equal(result.to_numpy(), 2 * X)


def test_rank_0_ends_the_others(pair: ServerProcess) -> None:
    ranks = [rank(pair, number) for number in (0, 1)]
    os.kill(ranks[0].pid, signal.SIGTERM)
    assert pair.process.wait(60) == 0
    psutil.wait_procs(ranks, 60)
    assert not any(each.is_running() for each in ranks)


def test_a_process_that_mpirun_did_not_start_is_refused() -> None:
    command = [sys.executable, "-m", "xla_server", "serve", "--distributed", "mpi", "--insecure"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "distributed: mpirun must start at least 2 processes, got 1" in ended.stderr


UNEVEN = """HloModule uneven
scalar { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
with { v = f32[$N] parameter(0)
  ROOT sum = f32[$N] all-reduce(v), replica_groups={}, to_apply=scalar }
without { v = f32[$N] parameter(0) ROOT n = f32[$N] negate(v) }
ENTRY e { x = f32[$N] parameter(0)
  first = f32[$N] all-reduce(x), replica_groups={}, to_apply=scalar
  me = u32[] replica-id()
  who = u32[] constant($WHO)
  comes = pred[] compare(me, who), direction=EQ
  ROOT r = f32[$N] conditional(comes, first, first),
    true_computation=with, false_computation=without }
"""


@SIZES
@pytest.mark.parametrize("who", [0, 1])
def test_a_rank_that_leaves_a_collective_out_is_named(
    lasting_pair: ServerProcess, who: int, size: int
) -> None:
    with xc.connect(lasting_pair.address, timeout=60) as client:
        mesh = client.mesh((2,), ("data",), replicas=2)
        text = UNEVEN.replace("$WHO", str(who)).replace("$N", str(size))
        run = client.compile(text, mesh=mesh)
        said = rf"all-reduce %sum.*\{{0,1\}} must arrive, got \{{{1 - who}\}} ended without it"
        for _ in range(3):
            with pytest.raises(xc.FailedPreconditionError, match=said):
                run.execute_sharded(np.zeros(size, np.float32))
