"""Workers of the first devices, and what is compiled for them."""

import subprocess
import sys
import types
from typing import Any

import pytest

from tests.unit.backends.cuda.platforms import WORKER
from xla_server.backends.cuda.worker.exchange.protocol import DeviceDescription, NoDeviceError
from xla_server.backends.cuda.workers import device_bytes, machine_of, start_workers

HEAVY = ("numba", "llvmlite", "scipy")


def of_kind(capability: str) -> Any:
    description = DeviceDescription("fake", capability, capability, 132, 1 << 30, 1 << 30)
    return types.SimpleNamespace(description=description)


def test_the_oldest_device_decides_what_is_compiled() -> None:
    assert machine_of([of_kind("sm_90")]).name == "sm_90"
    assert machine_of([of_kind("sm_120"), of_kind("sm_80"), of_kind("sm_90")]).name == "sm_80"


def test_devices_that_are_not_there_leave_no_worker() -> None:
    with pytest.raises(NoDeviceError, match="must be one of 2, got 2"):
        start_workers(3, WORKER)


def test_a_share_of_a_device_may_be_used() -> None:
    (worker,) = start_workers(1, WORKER)
    assert device_bytes(worker, 0.25) == worker.description.total_bytes // 4
    worker.close()


def test_what_a_server_loads_before_it_listens_is_light() -> None:
    script = (
        "import sys, xla_server.backends.cuda.buffers, xla_server.backends.cuda.workers;"
        f"print(sorted({{*sys.modules}} & {{*{HEAVY}}}))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("[]\n", "")
