"""Runs whose results others have as parameters before they are computed."""

import collections
import itertools
import queue
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.unit.backends.cuda.worker.fake_driver import LATE
from tests.unit.backends.cuda.worker.test_graphs import COUNTING, TWICE, Device
from tests.unit.backends.cuda.worker.workers import (
    InThread,
    begun,
    downloaded,
    launch,
    no_step,
    open_gate,
    pipes,
    program,
    run,
    uploaded,
    used,
    worker,
)
from xla_contract.errors import CancelledError
from xla_server.backends.cuda.worker import executor
from xla_server.backends.cuda.worker.exchange import messages
from xla_server.backends.cuda.worker.exchange.protocol import DeviceThunk, Finished, Launched
from xla_server.backends.cuda.worker.executor import Lane, ProgramRun
from xla_server.backends.cuda.worker.loaded import MEASUREMENTS, WorkerProgram
from xla_server.backends.cuda.worker.supervisor.launched_run import LaunchedRun
from xla_server.backends.cuda.worker.supervisor.process import (
    DeviceMemory,
    DeviceWorker,
    LoadedDeviceProgram,
)
from xla_server.execution.cancellation import Cancellation

__all__ = ["pipes", "worker"]

ONE, LATE_ONE = np.ones(1, np.uint8), np.full(1, LATE, np.uint8)


def incremented(worker: DeviceWorker, *before: DeviceThunk) -> LoadedDeviceProgram:
    """A measured program of a byte more, which is launched."""
    loaded = worker.load(program(*before, launch("increment", 0, 1), results=[1]))
    for _ in range(MEASUREMENTS):
        run(loaded, uploaded(worker, ONE))
    return loaded


class LaunchedInThread:
    """A launched run, which a thread waits for."""

    def __init__(self, loaded: LoadedDeviceProgram, *parameters: DeviceMemory) -> None:
        self.cancellation = Cancellation()
        found: queue.SimpleQueue[list[DeviceMemory]] = queue.SimpleQueue()

        def launched(memory: list[DeviceMemory], by: LaunchedRun) -> None:
            found.put(memory)

        self._call = InThread(loaded.run, parameters, self.cancellation, no_step, launched)
        (self.result,) = found.get(timeout=100)

    def end(self) -> None:
        results, _ = self._call.result()
        assert results is None


def test_runs_on_results_of_launched_ones_are_launched_in_their_order(
    pipes: Path, worker: DeviceWorker
) -> None:
    first = incremented(worker, launch("late_wait", 0))
    runs = [LaunchedInThread(first, uploaded(worker, LATE_ONE))]
    begun(pipes)
    second = incremented(worker)
    for _ in range(2):
        runs.append(LaunchedInThread(second, runs[-1].result))
    reading = InThread(downloaded, worker, runs[-1].result)
    open_gate(pipes)
    assert reading.result() == [LATE + 3]
    for each in runs:
        each.end()
    assert downloaded(worker, runs[0].result) == [LATE + 1]


def test_memory_that_a_launched_run_writes_is_freed_after_its_end(
    pipes: Path, worker: DeviceWorker
) -> None:
    loaded, argument = incremented(worker, launch("late_wait", 0)), uploaded(worker, LATE_ONE)
    for is_cancelled in (False, True):
        launched = LaunchedInThread(loaded, argument)
        begun(pipes)
        del launched.result
        # The argument and the result.
        assert used(worker) == 2
        if is_cancelled:
            launched.cancellation.cancel()
        open_gate(pipes)
        if is_cancelled:
            with pytest.raises(CancelledError):
                launched.end()
        else:
            launched.end()
        assert used(worker) == 1


def test_memory_is_not_freed_in_the_stream_of_a_launched_run(
    worker: DeviceWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, other = incremented(worker), [uploaded(worker, ONE)]
    requests: list[messages.Request] = []
    send = messages.send

    def noted(channel: socket.socket, request: messages.Request) -> None:
        requests.append(request)
        send(channel, request)

    monkeypatch.setattr(messages, "send", noted)
    address = other[0].address
    loaded.run(
        *([uploaded(worker, ONE)], Cancellation(), no_step), lambda memory, by: other.clear()
    )
    assert used(worker) == 0
    assert [type(each.body) for each in requests if address in each.freed] == [messages.Allocate]


def test_a_launch_that_is_not_taken_abandons_the_run(worker: DeviceWorker) -> None:
    def launched(memory: list[DeviceMemory], by: LaunchedRun) -> None:
        raise KeyError("launched")

    loaded, argument = incremented(worker), uploaded(worker, ONE)
    with pytest.raises(KeyError, match="launched"):
        loaded.run([argument], Cancellation(), no_step, launched)
    assert used(worker) == 1
    assert downloaded(worker, run(loaded, argument)[0]) == [2]


class Lanes:
    """Streams of the fake device in this process."""

    def __init__(self) -> None:
        self.device = Device()
        self.launched = self.device.owned.launched
        self._numbers = itertools.count()

    def new(self) -> Lane:
        return Lane(self.device.owned, self.device.driver.new_stream(), next(self._numbers))

    def value(self) -> int:
        address = self.device.value()
        self.device.driver.synchronise(self.device.stream)
        return address

    def measured(self, thunks: Sequence[DeviceThunk]) -> WorkerProgram:
        loaded = self.device.load_with_arena(thunks)
        for _ in range(MEASUREMENTS):
            self.device.run(loaded, self.value())
        return loaded


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> Lanes:
    monkeypatch.setattr(executor, "MAX_PENDING_NANOSECONDS", sys.maxsize)
    return Lanes()


POLLS = launch("late_fault", 0, 4)
"""A kernel with the flag among its arguments."""


@pytest.mark.parametrize(
    ("thunks", "expected"),
    [
        (TWICE, Launched),
        (TWICE[:1], Launched),
        ((), Finished),
        (COUNTING, Finished),
        ((POLLS,), Finished),
        ((POLLS, POLLS), Finished),
    ],
    ids=["graph", "kernel", "nothing", "loop", "long kernel", "graph of long kernels"],
)
def test_only_work_of_known_time_is_launched(
    lanes: Lanes, thunks: Sequence[DeviceThunk], expected: type
) -> None:
    loaded, lane, address = lanes.measured(thunks), lanes.new(), lanes.value()
    for _ in range(3):
        begun = ProgramRun(lane, loaded, [address], is_launched=True)
        assert isinstance(begun.go_on(), expected)
        if expected is Launched:
            assert len(lanes.launched) == 1
            assert isinstance(begun.go_on(), Finished)
        assert not lanes.launched


def test_a_stream_waits_for_the_runs_that_are_named(lanes: Lanes) -> None:
    loaded, address = lanes.measured(TWICE), lanes.value()
    before = lanes.device.driver.waits
    first = ProgramRun(lanes.new(), loaded, [address], is_launched=True)
    begun = first.go_on()
    assert isinstance(begun, Launched)
    second = ProgramRun(lanes.new(), loaded, [address], [begun.run, 999], is_launched=True)
    assert isinstance(second.go_on(), Launched)
    assert lanes.device.driver.waits == before
    assert isinstance(second.go_on(), Finished)
    assert lanes.device.driver.waits == before + 1
    assert lanes.device.read(address) == 5
    assert isinstance(first.go_on(), Finished)


def test_the_bound_of_enqueued_work_is_that_of_a_chain(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, address = lanes.measured(TWICE), lanes.value()
    cost = loaded.nanoseconds(0, 2)
    assert cost is not None
    monkeypatch.setattr(executor, "MAX_PENDING_NANOSECONDS", 2 * cost)
    after, runs = list[int](), []
    for _ in range(3):
        runs.append(ProgramRun(lanes.new(), loaded, [address], after, is_launched=True))
        outcome = runs[-1].go_on()
        assert isinstance(outcome, Launched)
        after = [outcome.run]
    first, second, third = [each.nanoseconds for each in lanes.launched.values()]
    assert (first, second) == (cost, 2 * cost)
    # It has waited for the others.
    assert third < cost
    assert all(isinstance(each.go_on(), Finished) for each in runs)


@pytest.mark.parametrize("is_over", [False, True])
def test_memory_is_freed_once_and_at_the_end_of_its_run(is_over: bool) -> None:
    freed: collections.deque[int] = collections.deque()
    by = LaunchedRun(1, freed)
    if is_over:
        by.end()
    by.free(7)
    assert list(freed) == [7] * is_over
    by.end()
    assert list(freed) == [7]
