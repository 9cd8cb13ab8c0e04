"""Runs in a worker: thunks, steps on the host, results, and what is freed afterwards."""

import collections
import socket
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.cuda.programs import PLAN
from tests.unit.backends.cuda.worker.fake_driver import MAX_MODULES
from tests.unit.backends.cuda.worker.workers import (
    downloaded,
    launch,
    pipes,
    program,
    run,
    uploaded,
    used,
    worker,
)
from xla_server.backends.cuda.worker.exchange.protocol import (
    Branch,
    Copy,
    HostStep,
    Jump,
    LibraryCall,
    Switch,
)
from xla_server.backends.cuda.worker.supervisor.process import DeviceWorker, HostAccess

__all__ = ["pipes", "worker"]


def bytes_of(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint8)


def test_a_launch_reads_parameters_and_writes_results(worker: DeviceWorker) -> None:
    loaded = worker.load(program(launch("increment", 0, 1), results=[3], count=3))
    (result,) = run(loaded, uploaded(worker, bytes_of(7, 8, 9)))
    assert downloaded(worker, result).tolist() == [8, 9, 10]


def test_slots_are_parameters_results_constants_arena(worker: DeviceWorker) -> None:
    thunks = [launch("increment", 2, 3), launch("increment", 3, 4), Copy(1, 4, 2)]
    loaded = worker.load(
        program(*thunks, results=[2], constants=[b"\x01\x02"], arena=[0, 256], count=2)
    )
    (result,) = run(loaded, uploaded(worker, bytes_of(0)))
    assert downloaded(worker, result).tolist() == [3, 4]
    (constant,) = loaded.constants()
    assert downloaded(worker, constant).tolist() == [1, 2]


def test_a_loop_ends_where_its_predicate_is_zero(worker: DeviceWorker) -> None:
    thunks = [
        Copy(1, 0, 1),
        launch("is_below_five", 1, 2),
        Branch(2, 5),
        launch("increment", 1, 1),
        Jump(1),
    ]
    loaded = worker.load(program(*thunks, results=[1], arena=[0]))
    (result,) = run(loaded, uploaded(worker, bytes_of(2)))
    assert downloaded(worker, result).tolist() == [5]


@pytest.mark.parametrize(("index", "expected"), [(0, 11), (1, 12), (7, 12), (-1, 12)])
def test_a_switch_takes_the_last_thunk_for_other_numbers(
    worker: DeviceWorker, index: int, expected: int
) -> None:
    thunks = [
        Switch(0, (1, 3)),
        launch("increment", 2, 1),
        Jump(5),
        launch("increment", 2, 1),
        launch("increment", 1, 1),
    ]
    loaded = worker.load(program(*thunks, results=[1], constants=[b"\x0a"]))
    (result,) = run(loaded, uploaded(worker, np.array(index, np.int32)))
    assert downloaded(worker, result).tolist() == [expected]


def test_a_library_computes_a_plan(worker: DeviceWorker) -> None:
    loaded = worker.load(program(LibraryCall(PLAN, (0, 1)), results=[4]))
    (result,) = run(loaded, uploaded(worker, bytes_of(1, 2, 3, 4)))
    assert downloaded(worker, result).tolist() == [2, 3, 4, 5]


def test_a_step_of_the_host_reads_and_writes_values(worker: DeviceWorker) -> None:
    steps = []

    def step(number: int, access: HostAccess) -> None:
        value = np.zeros(2, np.uint8)
        access.read(2, value)
        steps.append((number, value.tolist()))
        access.write(2, value * 10)

    thunks = [launch("increment", 0, 2), HostStep(0), HostStep(1), launch("increment", 2, 1)]
    loaded = worker.load(program(*thunks, results=[2], arena=[0], count=2))
    (result,) = run(loaded, uploaded(worker, bytes_of(0, 1)), step=step)
    assert steps == [(0, [1, 2]), (1, [10, 20])]
    assert downloaded(worker, result).tolist() == [101, 201]


def test_a_step_that_fails_frees_what_the_run_had(worker: DeviceWorker) -> None:
    def step(number: int, access: HostAccess) -> None:
        raise KeyError("step")

    loaded = worker.load(program(HostStep(0), results=[3], arena=[0]))
    with pytest.raises(KeyError, match="step"):
        run(loaded, uploaded(worker, bytes_of(0)), step=step)
    assert used(worker) == 0


def test_nothing_is_left_when_values_and_programs_are_released(worker: DeviceWorker) -> None:
    loaded = worker.load(
        program(launch("increment", 0, 1), results=[3], constants=[b"12"], arena=[0], count=3)
    )
    argument = uploaded(worker, bytes_of(7, 8, 9))
    results = run(loaded, argument)
    assert used(worker) == 3 + 3 + 2
    del results, argument
    assert used(worker) == 2
    del loaded
    assert used(worker) == 0


def test_modules_are_unloaded_with_their_programs(worker: DeviceWorker) -> None:
    for _ in range(2 * MAX_MODULES):
        loaded = worker.load(program(launch("increment", 0, 1), results=[1]))
        run(loaded, uploaded(worker, bytes_of(1)))
        del loaded


def test_an_empty_array_is_memory_too(worker: DeviceWorker) -> None:
    memory = uploaded(worker, np.zeros((0, 3), np.float32))
    worker.download(memory, np.zeros((3, 0), np.float32))
    assert memory.byte_size == 0


def test_a_small_run_takes_three_messages_each_way(
    worker: DeviceWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One with the argument, one with the run and its results' memory, one with the result.
    loaded = worker.load(program(launch("increment", 0, 1), results=[1]))
    calls: collections.Counter[str] = collections.Counter()

    def count(name: str) -> None:
        call = getattr(socket.socket, name)

        def counted(*arguments: Any) -> Any:
            calls[name] += 1
            return call(*arguments)

        monkeypatch.setattr(socket.socket, name, counted)

    for name in ("send", "sendall", "recv", "recv_into"):
        count(name)
    for _ in range(2):
        (result,) = run(loaded, uploaded(worker, np.ones(1, np.uint8)))
        assert downloaded(worker, result) == [2]
        del result
    assert calls == {"sendall": 6, "recv": 6}
