"""A server whose devices are the twin of a GPU: its workers are real processes, which can die."""

import concurrent.futures
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess, start_server
from xla_client import Builder, Computation, Shape, ops
from xla_client.lib import sorting

SIZE = 1 << 20
"""Bytes of an array of which few fit a small device."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with _server(tmp_path_factory.mktemp("twin"), "TwinDriver") as running:
        yield running


def _server(directory: Path, device: str) -> Any:
    environment = {"TWIN_DEVICE": device}
    flags = ("--devices", "2")
    return start_server(directory, *flags, environment=environment, module="tests.cuda_twin.serve")


def _worker(server: ServerProcess, ordinal: int) -> psutil.Process:
    """Return the process of a device's worker."""
    for child in psutil.Process(server.process.pid).children(recursive=True):
        words = child.cmdline()
        if "--ordinal" in words and words[words.index("--ordinal") + 1] == str(ordinal):
            return child
    raise AssertionError(f"no worker of device {ordinal}")


def _doubled() -> Computation:
    builder = Builder("doubled")
    x = builder.parameter(0, Shape.parse("f32[100]"))
    return builder.build(x + x)


def _endless() -> Computation:
    """Return a program that gives an array to the outfeed and then goes on for ever.

    A loop of few numbers would be one kernel, of the host.
    """
    array, state = Shape.parse("f32[64,64]"), Shape.parse("(f32[64,64], token[])")
    condition = Builder("always")
    condition.parameter(0, state)
    body = Builder("next")
    before = body.parameter(0, state)
    token = ops.get_tuple_element(before, 1)
    after = ops.tuple([ops.get_tuple_element(before, 0) * 0.5, token])
    builder = Builder("endless")
    start = builder.parameter(0, array)
    begun = ops.outfeed_with_token(start, builder.create_token(), array)
    loop = ops.while_(
        condition.build(condition.constant(True)), body.build(after), ops.tuple([start, begun])
    )
    return builder.build(ops.get_tuple_element(loop, 0))


def test_programs_give_the_numbers_of_numpy(client: xc.Client) -> None:
    builder = Builder("program")
    x = builder.parameter(0, Shape.parse("f32[40,50]"))
    y = builder.parameter(1, Shape.parse("f32[50,20]"))
    root = ops.tuple(
        [ops.tanh(x), ops.dot(x, y), sorting.sort(x, dimension=1), ops.transpose(x, [1, 0])]
    )
    random = np.random.default_rng(1)
    given = [random.standard_normal(sizes).astype(np.float32) for sizes in ((40, 50), (50, 20))]
    found = client.compile(builder.build(root)).run(*given)
    expected = np.tanh(given[0]), given[0] @ given[1], np.sort(given[0], axis=1), given[0].T
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_loop_without_end_stops_at_the_deadline(client: xc.Client) -> None:
    executable = client.compile(_endless())
    with pytest.raises(xc.DeadlineExceededError):
        executable.run(np.zeros((64, 64), np.float32), timeout=1)
    np.testing.assert_array_equal(client.compile(_doubled()).run(np.ones(100, np.float32)), 2)


def test_a_launch_answers_at_once_and_values_pass_while_it_runs(client: xc.Client) -> None:
    running = client.compile(_endless()).submit(np.ones((64, 64), np.float32))
    np.testing.assert_array_equal(client.device().from_outfeed("f32[64,64]"), 1)
    # Both pass through shared memory, in blocks.
    sent = np.random.default_rng(2).integers(0, 256, 9 * SIZE, np.uint8)
    np.testing.assert_array_equal(client.to_device(sent).to_numpy(), sent)
    assert not running.done()
    assert running.cancel()
    with pytest.raises(xc.CancelledError):
        running.result()


def test_a_worker_that_dies_takes_its_values_along_and_nothing_else(server: ServerProcess) -> None:
    ones = np.ones(100, np.float32)
    with (
        xc.connect(server.address, timeout=60) as client,
        xc.connect(server.address, timeout=60) as other,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        first, second = client.devices()
        doubled = client.compile(_doubled())
        lost = client.to_device(ones, first)
        kept = client.to_device(ones, second)
        running = pool.submit(client.compile(_endless()).run, np.ones((64, 64), np.float32))
        np.testing.assert_array_equal(first.from_outfeed("f32[64,64]"), 1)
        pid = _worker(server, 0).pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(xc.UnavailableError, match="device 0"):
            running.result()
        with pytest.raises(xc.UnavailableError, match="device 0"):
            doubled(lost)
        np.testing.assert_array_equal(kept.to_numpy(), 1)
        # The device has another worker.
        np.testing.assert_array_equal(doubled.run(ones), 2)
        np.testing.assert_array_equal(other.compile(_doubled()).run(ones), 2)
        assert _worker(server, 0).pid != pid


def test_a_device_without_memory_says_so_and_keeps_what_it_has(tmp_path: Path) -> None:
    with (
        _server(tmp_path, "SmallTwin") as running,
        xc.connect(running.address, timeout=60) as client,
    ):
        kept = [client.to_device(np.full(SIZE, number, np.uint8)) for number in range(12)]
        with pytest.raises(xc.ResourceExhaustedError, match=r"\d+"):
            client.to_device(np.zeros(8 * SIZE, np.uint8))
        for number, each in enumerate(kept):
            assert (each.to_numpy() == number).all()
            each.delete()
        large = client.to_device(np.ones(8 * SIZE, np.uint8))
        assert (large.to_numpy() == 1).all()
