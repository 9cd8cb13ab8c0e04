"""Programs whose addresses come again are launched as graphs, with the same results."""

import numpy as np
import pytest

from tests.unit.backends.cuda.worker.workers import (
    downloaded,
    launch,
    pipes,
    program,
    run,
    uploaded,
    worker,
)
from xla_contract.errors import CancelledError
from xla_server.backends.cuda.worker.graphs import MAX_GRAPHS
from xla_server.backends.cuda.worker.process import DeviceWorker
from xla_server.backends.cuda.worker.protocol import Copy, DeviceRow, Jump
from xla_server.execution.cancellation import Cancellation

__all__ = ["pipes", "worker"]

TWICE = (launch("increment", 0, 0), launch("increment", 0, 0))


def graphs(worker: DeviceWorker) -> int:
    """Return how many graphs were launched."""
    loaded, count = worker.load(program(launch("launched_graphs", 0))), uploaded(worker, one())
    run(loaded, count)
    return int(downloaded(worker, count)[0])


def one() -> np.ndarray:
    return np.ones(1, np.uint8)


def test_addresses_that_come_again_have_a_graph(worker: DeviceWorker) -> None:
    loaded = worker.load(program(*TWICE, Copy(0, 0, 1)))
    first, second = uploaded(worker, one()), uploaded(worker, one())
    for _ in range(4):
        run(loaded, first)
    run(loaded, second)
    assert downloaded(worker, first).tolist() == [9]
    assert downloaded(worker, second).tolist() == [3]
    assert graphs(worker) == 3


@pytest.mark.parametrize("rows", [TWICE[:1], (Jump(1), *TWICE)])
def test_one_launch_and_a_jump_have_none(worker: DeviceWorker, rows: tuple[DeviceRow, ...]) -> None:
    loaded, argument = worker.load(program(*rows)), uploaded(worker, one())
    for _ in range(3):
        run(loaded, argument)
    assert graphs(worker) == 0


def test_a_program_that_cannot_be_captured_runs_without(worker: DeviceWorker) -> None:
    loaded = worker.load(program(launch("uncapturable", 0, 0), TWICE[0]))
    argument = uploaded(worker, one())
    for _ in range(4):
        run(loaded, argument)
    assert downloaded(worker, argument).tolist() == [9]
    assert graphs(worker) == 0


def test_more_addresses_than_graphs_give_the_same(worker: DeviceWorker) -> None:
    loaded = worker.load(program(*TWICE))
    arguments = [uploaded(worker, one()) for _ in range(MAX_GRAPHS + 2)]
    for _ in range(5):
        for each in arguments:
            run(loaded, each)
    assert {int(downloaded(worker, each)[0]) for each in arguments} == {11}


def test_a_cancelled_run_launches_no_graph(worker: DeviceWorker) -> None:
    loaded, argument = worker.load(program(*TWICE)), uploaded(worker, one())
    for _ in range(2):
        run(loaded, argument)
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(CancelledError):
        run(loaded, argument, cancellation=cancellation)
    assert downloaded(worker, argument).tolist() == [5]
