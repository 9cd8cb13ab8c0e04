"""The platform cuda as a server makes it, without a GPU or on fake ones."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.backends.cuda.platforms import WORKER
from tests.unit.backends.cuda.worker.fake_driver import TOTAL_BYTES
from xla_contract.types.literal import Literal
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import Settings
from xla_server.app.platforms import create_backend
from xla_server.app.serving.wiring import device_bytes
from xla_server.backends.cuda import workers
from xla_server.backends.cuda.worker.exchange.protocol import NoDeviceError
from xla_server.backends.deferred import DeferredBackend


def serve() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from xla_server.app.cli import main; main()", "serve"]
    return subprocess.run(
        [*command, "--platform", "cuda", "--listen", "127.0.0.1:0", "--insecure"],
        capture_output=True,
        text=True,
        timeout=120,
        # The driver sees no GPU of a machine that has one.
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )


def test_without_a_gpu_the_server_ends_with_2_and_a_sentence() -> None:
    ended = serve()
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("xla-server: platform: platform cuda needs ")


@pytest.fixture
def fake_devices(monkeypatch: pytest.MonkeyPatch) -> list[workers.DeviceWorker]:
    """Two devices on memory of the host, and the workers that were started."""
    started: list[workers.DeviceWorker] = []

    def start(count: int) -> list[workers.DeviceWorker]:
        started.extend(original(count, WORKER))
        return started

    original = workers.start_workers
    monkeypatch.setattr(workers, "count_devices", lambda: 2)
    monkeypatch.setattr(workers, "start_workers", start)
    return started


@pytest.mark.parametrize(("devices", "count"), [("all", 2), (1, 1)])
def test_values_are_placed_before_the_compiler_is_loaded(
    devices: object,
    count: int,
    fake_devices: list[workers.DeviceWorker],
    tmp_path: Path,
) -> None:
    settings = Settings(
        platform="cuda",
        devices=devices,  # type: ignore[arg-type]
        cuda_memory_fraction=0.5,
        compilation_cache_dir=str(tmp_path / "kernels"),
    )
    backend = create_backend(settings)
    assert isinstance(backend, DeferredBackend)
    assert [str(device) for device in backend.devices] == [f"cuda:{n}" for n in range(count)]
    assert device_bytes(settings, backend) == count * TOTAL_BYTES // 2
    literal = Literal.from_numpy(np.float32([1, 2]))
    early = backend.to_device(literal, backend.devices[-1])
    assert not backend.is_loaded
    backend.prepare()
    late = backend.to_device(literal, backend.devices[-1])
    assert type(early) is type(late)
    for buffer in (early, late):
        np.testing.assert_array_equal(buffer.to_literal().value, [1, 2])
    for worker in fake_devices:
        worker.close()


def test_there_are_not_more_devices_than_there_are(
    fake_devices: list[workers.DeviceWorker],
) -> None:
    with pytest.raises(ConfigurationError, match=r"^devices: .* number of GPUs, 2, got 3"):
        create_backend(Settings(platform="cuda", devices=3))
    assert fake_devices == []


def test_a_device_that_does_not_open_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: int) -> None:
        raise NoDeviceError("device 0 must open, got none")

    monkeypatch.setattr(workers, "count_devices", lambda: 1)
    monkeypatch.setattr(workers, "start_workers", closed)
    with pytest.raises(ConfigurationError, match=r"^platform: device 0 must open, got none"):
        create_backend(Settings(platform="cuda"))
