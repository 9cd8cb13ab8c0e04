"""Workers with the fake driver, and small programs for them."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.cuda.worker import fake_driver
from xla_contract.errors import ResourceExhaustedError
from xla_server.backends.cuda.worker.exchange.protocol import (
    DeviceKernel,
    DeviceProgram,
    DeviceThunk,
    Launch,
)
from xla_server.backends.cuda.worker.supervisor.process import (
    DeviceMemory,
    DeviceWorker,
    HostAccess,
    LoadedDeviceProgram,
)
from xla_server.execution.cancellation import Cancellation
from xla_server.ops.evaluation import Array

ROOT = Path(__file__).parents[5]
DRIVER = f"{fake_driver.__name__}:{fake_driver.FakeDriver.__name__}"
COMMAND = (
    sys.executable,
    *("-P", "-m", "xla_server.backends.cuda.worker.child", "--driver", DRIVER),
)
KERNELS = (
    *("increment", "is_below_five", "fault", "begin", "wait", "hang", "die", "poll"),
    *("uncapturable", "is_below_two_hundred"),
    *("late_fault", "late_wait", "late_hang", "late_die"),
)


@pytest.fixture
def pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the pipes of the fake driver."""
    os.mkfifo(tmp_path / "begun")
    os.mkfifo(tmp_path / "gate")
    monkeypatch.setenv(fake_driver.PIPES, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def worker(pipes: Path) -> Iterator[DeviceWorker]:
    started = DeviceWorker(0, COMMAND, timeout=0.2)
    yield started
    started.close()


def program(
    *thunks: DeviceThunk,
    parameters: int = 1,
    results: Sequence[int] = (),
    constants: Sequence[bytes] = (),
    arena: Sequence[int] = (),
    count: int = 1,
) -> DeviceProgram:
    kernels = tuple(DeviceKernel(0, name, 1, count) for name in KERNELS)
    return DeviceProgram(
        *((b"module",), kernels, thunks, parameters, tuple(constants), tuple(results)),
        *(tuple(arena), 1024 if arena else 0),
    )


def launch(name: str, *slots: int) -> Launch:
    return Launch(KERNELS.index(name), slots)


def no_step(number: int, access: HostAccess) -> None:
    raise AssertionError(f"there is no step, got {number}")


def run(
    loaded: LoadedDeviceProgram,
    *parameters: DeviceMemory,
    cancellation: Cancellation | None = None,
    step: Callable[[int, HostAccess], None] = no_step,
) -> list[DeviceMemory]:
    results, _ = loaded.run(parameters, cancellation or Cancellation(), step)
    assert results is not None
    return results


def uploaded(worker: DeviceWorker, array: Array) -> DeviceMemory:
    return worker.placed(array)


def downloaded(worker: DeviceWorker, memory: DeviceMemory) -> Array:
    array = np.zeros(memory.byte_size, np.uint8)
    worker.download(memory, array)
    return array


def used(worker: DeviceWorker) -> int:
    """Return the bytes that are allocated, as the figures of a refusal say them."""
    with pytest.raises(ResourceExhaustedError) as refusal:
        worker.placed(np.empty(fake_driver.TOTAL_BYTES + 1, np.uint8))
    return fake_driver.TOTAL_BYTES - int(refusal.value.message.split(" free of")[0].split()[-1])


def begun(pipes: Path) -> None:
    """Wait until a kernel that waits or hangs is executed."""
    (pipes / "begun").read_bytes()


def open_gate(pipes: Path) -> None:
    """Let a kernel that waits go on."""
    (pipes / "gate").write_bytes(b"!")


class InThread:
    """A call in a thread of its own."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future: Future[Any] = self._pool.submit(function, *arguments, **named)

    def result(self) -> Any:
        try:
            return self._future.result()
        finally:
            self._pool.shutdown()
