"""Workers that end, hang, or lack memory: errors of callers, and what continues."""

import logging
import os
import queue
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.unit.backends.cuda.worker import fake_driver
from tests.unit.backends.cuda.worker.workers import (
    COMMAND,
    InThread,
    begun,
    downloaded,
    launch,
    open_gate,
    pipes,
    program,
    run,
    uploaded,
    used,
    worker,
)
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    ResourceExhaustedError,
    UnavailableError,
)
from xla_server.backends.cuda.worker.exchange.messages import RequestError
from xla_server.backends.cuda.worker.exchange.protocol import (
    Branch,
    DeviceProgram,
    HostStep,
    Jump,
    NoDeviceError,
)
from xla_server.backends.cuda.worker.exchange.shared_memory import BLOCK_BYTES
from xla_server.backends.cuda.worker.supervisor.process import DeviceWorker, HostAccess
from xla_server.execution.cancellation import Cancellation

__all__ = ["pipes", "worker"]

ONE = np.ones(1, np.uint8)


def killed(worker: DeviceWorker) -> None:
    os.kill(worker.process().process_id, signal.SIGKILL)


def test_a_device_that_is_not_there_is_refused(pipes: Path) -> None:
    with pytest.raises(NoDeviceError, match="one of 2, got 7"):
        DeviceWorker(7, COMMAND)


def test_a_worker_that_does_not_start_is_refused_with_what_it_wrote(pipes: Path) -> None:
    with pytest.raises(NoDeviceError, match="No module named 'nothing'"):
        DeviceWorker(0, (*COMMAND[:-1], "nothing:Nothing"))


def test_values_of_a_killed_worker_are_lost_by_one_incident(
    worker: DeviceWorker, caplog: pytest.LogCaptureFixture
) -> None:
    memory = uploaded(worker, ONE)
    killed(worker)
    with caplog.at_level(logging.ERROR), pytest.raises(UnavailableError) as first:
        downloaded(worker, memory)
    with pytest.raises(UnavailableError) as second:
        downloaded(worker, memory)
    assert first.value.incident == second.value.incident
    assert f"device 0 (fake) that ended, incident {first.value.incident}" in first.value.message
    assert "ended with -9" in caplog.text


def test_a_lost_worker_is_replaced_and_programs_are_loaded_again(worker: DeviceWorker) -> None:
    loaded = worker.load(program(launch("increment", 1, 2), results=[1], constants=[b"\x05"]))
    old, generation = uploaded(worker, ONE), worker.process().number
    killed(worker)
    with pytest.raises(UnavailableError):
        downloaded(worker, old)
    argument = uploaded(worker, ONE)
    with pytest.raises(UnavailableError):
        run(loaded, old)
    del old
    results = [run(loaded, argument) for _ in range(2)]
    assert worker.process().number == generation + 1
    assert argument.process.number == worker.process().number
    assert used(worker) == 4
    del results


def test_a_run_and_a_transfer_at_the_same_time_are_reported_and_other_devices_go_on(
    pipes: Path, worker: DeviceWorker
) -> None:
    other = DeviceWorker(1, COMMAND)
    value = uploaded(other, ONE)
    loaded = worker.load(program(launch("hang")))
    calls = [InThread(run, loaded, uploaded(worker, ONE))]
    begun(pipes)
    calls.append(InThread(uploaded, worker, np.full(3 * BLOCK_BYTES, fake_driver.HANGS, np.uint8)))
    begun(pipes)
    killed(worker)
    incidents = set()
    for each in calls:
        with pytest.raises(UnavailableError) as reported:
            each.result()
        incidents.add(reported.value.incident)
    assert len(incidents) == 1
    assert downloaded(other, value).tolist() == [1]
    other.close()


class Blocks(queue.LifoQueue[int]):
    """Staging blocks, of which none is free; `requested` is set once a transfer waits for one."""

    def __init__(self) -> None:
        super().__init__()
        self.requested = threading.Event()

    def get(self, block: bool = True, timeout: float | None = None) -> int:
        self.requested.set()
        return super().get(block, timeout)


def test_a_transfer_that_waits_for_blocks_of_a_lost_worker_ends(
    pipes: Path, worker: DeviceWorker
) -> None:
    memory = uploaded(worker, np.zeros(3 * BLOCK_BYTES, np.uint8))
    calls = [InThread(uploaded, worker, np.full(3 * BLOCK_BYTES, fake_driver.HANGS, np.uint8))]
    begun(pipes)
    blocks = worker.process().blocks = Blocks()
    calls.append(InThread(downloaded, worker, memory))
    blocks.requested.wait()
    killed(worker)
    for each in calls:
        with pytest.raises(UnavailableError):
            each.result()


def test_a_sticky_error_ends_the_worker_and_the_log_has_the_last_launches(
    worker: DeviceWorker, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = worker.load(program(launch("increment", 0, 0), launch("fault", 0, 0)))
    argument = uploaded(worker, ONE)
    with caplog.at_level(logging.ERROR), pytest.raises(UnavailableError):
        run(loaded, argument)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS; last launches: increment, fault" in caplog.text
    assert downloaded(worker, uploaded(worker, ONE)).tolist() == [1]


def test_a_new_program_is_reported_with_the_launch_that_failed(
    worker: DeviceWorker, caplog: pytest.LogCaptureFixture
) -> None:
    thunks = [launch("increment", 0, 0), launch("fault", 0, 0), launch("begin")]
    loaded, argument = worker.load(program(*thunks)), uploaded(worker, ONE)
    with caplog.at_level(logging.ERROR), pytest.raises(UnavailableError):
        run(loaded, argument)
    assert caplog.text.strip().endswith("last launches: increment, fault")


def test_a_worker_that_dies_while_a_step_runs_is_reported(worker: DeviceWorker) -> None:
    def step(number: int, access: HostAccess) -> None:
        killed(worker)
        access.read(0, np.zeros(1, np.uint8))

    loaded = worker.load(program(HostStep(0)))
    with pytest.raises(UnavailableError):
        run(loaded, uploaded(worker, ONE), step=step)


def test_memory_that_is_not_there_is_refused_with_figures(worker: DeviceWorker) -> None:
    memory = uploaded(worker, ONE)
    requested = fake_driver.TOTAL_BYTES
    with pytest.raises(ResourceExhaustedError) as refusal:
        worker.placed(np.empty(requested, np.uint8))
    assert f"{requested} bytes with {requested - 1} free of {requested}" in refusal.value.message
    assert downloaded(worker, memory).tolist() == [1]


def test_a_run_without_memory_frees_what_it_had(worker: DeviceWorker) -> None:
    half = fake_driver.TOTAL_BYTES // 2 + 1
    loaded = worker.load(program(launch("increment", 0, 1), results=[half, half], arena=[0]))
    argument = uploaded(worker, ONE)
    with pytest.raises(ResourceExhaustedError):
        run(loaded, argument)
    assert used(worker) == 1


def test_a_module_that_does_not_load_is_refused_and_the_worker_goes_on(
    worker: DeviceWorker,
) -> None:
    bad = program(launch("increment", 0, 0))
    object.__setattr__(bad, "modules", (b"no module",))
    with pytest.raises(RequestError, match="a module must be one of this driver"):
        worker.load(bad)
    assert downloaded(worker, uploaded(worker, ONE)).tolist() == [1]


def test_a_cancelled_run_stops_between_thunks(pipes: Path, worker: DeviceWorker) -> None:
    cancellation = Cancellation()
    loaded = worker.load(program(launch("wait"), HostStep(0), Jump(2), results=[5], arena=[0]))
    argument = uploaded(worker, ONE)
    running = InThread(
        run, loaded, argument, cancellation=cancellation, step=lambda number, access: None
    )
    begun(pipes)
    open_gate(pipes)
    cancellation.cancel(DeadlineExceededError("too late"))
    with pytest.raises(DeadlineExceededError, match="too late"):
        running.result()
    assert used(worker) == 1


def test_a_new_program_stops_within_a_launch(pipes: Path, worker: DeviceWorker) -> None:
    cancellation = Cancellation()
    loaded = worker.load(program(launch("wait"), launch("increment", 0, 0)))
    argument = uploaded(worker, ONE)
    running = InThread(run, loaded, argument, cancellation=cancellation)
    begun(pipes)
    cancellation.cancel()
    open_gate(pipes)
    with pytest.raises(CancelledError):
        running.result()
    assert downloaded(worker, argument).tolist() == [1]


def test_a_kernel_is_stopped_while_it_runs(pipes: Path, worker: DeviceWorker) -> None:
    # The slot behind those of arrays has the cancellation word of the connection that runs it.
    loaded, argument = (
        worker.load(program(launch("poll", 0, 2), results=[5])),
        uploaded(worker, ONE),
    )
    for _ in range(2):
        cancellation = Cancellation()
        running = InThread(run, loaded, argument, cancellation=cancellation)
        begun(pipes)
        cancellation.cancel()
        with pytest.raises(CancelledError):
            running.result()
    assert used(worker) == 1


def test_a_run_is_not_begun_after_its_cancellation(worker: DeviceWorker) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    loaded = worker.load(program(launch("die"), results=[5]))
    with pytest.raises(CancelledError):
        run(loaded, uploaded(worker, ONE), cancellation=cancellation)
    assert used(worker) == 0


def test_a_cancelled_step_abandons_its_run(worker: DeviceWorker) -> None:
    cancellation = Cancellation()

    def step(number: int, access: HostAccess) -> None:
        cancellation.cancel()

    loaded = worker.load(program(HostStep(0), launch("die"), results=[5], arena=[0]))
    with pytest.raises(CancelledError):
        run(loaded, uploaded(worker, ONE), cancellation=cancellation, step=step)
    assert used(worker) == 0


def test_calls_go_on_beside_a_run_and_after_signals_to_the_group(
    pipes: Path, worker: DeviceWorker
) -> None:
    loaded, cancellation = worker.load(program(launch("wait"))), Cancellation()
    running = InThread(run, loaded, uploaded(worker, ONE), cancellation=cancellation)
    begun(pipes)
    # Its thread takes no processor time.
    assert cancellation.is_outside
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(worker.process().process_id, number)
    assert downloaded(worker, uploaded(worker, ONE)).tolist() == [1]
    open_gate(pipes)
    assert running.result() == []
    assert not cancellation.is_outside


def test_a_closed_worker_is_gone_with_its_runs(pipes: Path, worker: DeviceWorker) -> None:
    loaded = worker.load(program(launch("hang")))
    running = InThread(run, loaded, uploaded(worker, ONE))
    begun(pipes)
    worker.close()
    with pytest.raises(UnavailableError, match="must be open, got a closed one"):
        running.result()
    with pytest.raises(UnavailableError, match="must be open, got a closed one"):
        worker.placed(ONE)


def looping(kernel: str) -> DeviceProgram:
    """Return a loop to two hundred, soon a graph, that launches a kernel at each turn."""
    turn = (launch("increment", 0, 0), launch(kernel, 0, 0), Jump(0))
    return program(launch("is_below_two_hundred", 0, 1), Branch(1, 5), *turn, arena=[0])


@pytest.mark.parametrize(
    ("kernel", "said"),
    [("late_fault", "CUDA_ERROR_ILLEGAL_ADDRESS"), ("late_die", "ended with -9")],
)
def test_a_fault_in_a_loop_of_a_graph_loses_the_worker_alone(
    worker: DeviceWorker, caplog: pytest.LogCaptureFixture, kernel: str, said: str
) -> None:
    loaded, counts = worker.load(looping(kernel)), worker.load(looping("increment"))
    with caplog.at_level(logging.ERROR), pytest.raises(UnavailableError):
        run(loaded, uploaded(worker, ONE))
    assert said in caplog.text
    argument = uploaded(worker, ONE)
    run(counts, argument)
    assert downloaded(worker, argument) == [201]


def test_a_loop_of_a_graph_stops_at_its_next_turn(pipes: Path, worker: DeviceWorker) -> None:
    cancellation, argument = Cancellation(), uploaded(worker, ONE)
    running = InThread(run, worker.load(looping("late_wait")), argument, cancellation=cancellation)
    begun(pipes)
    cancellation.cancel()
    open_gate(pipes)
    with pytest.raises(CancelledError):
        running.result()
    assert downloaded(worker, argument) == [fake_driver.LATE]
    assert used(worker) == 1


@pytest.mark.parametrize(
    "hangs", [program(launch("hang")), looping("late_hang")], ids=["launch", "graph"]
)
def test_a_worker_that_does_not_stop_is_ended(
    pipes: Path, worker: DeviceWorker, caplog: pytest.LogCaptureFixture, hangs: DeviceProgram
) -> None:
    cancellation = Cancellation()
    loaded = worker.load(hangs)
    running = InThread(run, loaded, uploaded(worker, ONE), cancellation=cancellation)
    begun(pipes)
    with caplog.at_level(logging.ERROR):
        cancellation.cancel()
        with pytest.raises(UnavailableError):
            running.result()
    assert "it did not stop a run in 0.2 seconds" in caplog.text


def test_a_program_with_graphs_waits_for_memory_to_be_freed(worker: DeviceWorker) -> None:
    most = fake_driver.TOTAL_BYTES - 2048
    thunks = [launch("increment", 0, 0), launch("increment", 0, 1)]
    loaded, argument = worker.load(program(*thunks, results=[most])), uploaded(worker, ONE)
    for turn in range(6):
        results = run(loaded, argument)
        with pytest.raises(ResourceExhaustedError):
            run(loaded, argument)
        found = np.zeros(1, np.uint8)
        worker.download(results[0], found)
        assert found == [turn + 3]
        del results


def test_transfers_go_on_while_a_loop_of_a_graph_does(pipes: Path, worker: DeviceWorker) -> None:
    argument = uploaded(worker, ONE)
    running = InThread(run, worker.load(looping("late_wait")), argument)
    begun(pipes)
    data = np.arange(3 * BLOCK_BYTES, dtype=np.uint8)
    assert np.array_equal(downloaded(worker, uploaded(worker, data)), data)
    open_gate(pipes)
    running.result()
    assert downloaded(worker, argument) == [200]
