"""Workers of the first devices, and what is compiled for them."""

import subprocess
import sys

import pytest

from tests.unit.backends.cuda.platforms import WORKER
from xla_server.backends.cuda.worker.protocol import NoDeviceError
from xla_server.backends.cuda.workers import device_bytes, machine_of, start_workers

HEAVY = ("numba", "llvmlite", "scipy")


@pytest.mark.parametrize(
    ("capabilities", "name"),
    [
        (["sm_90"], "sm_90"),
        (["sm_89"], "sm_80"),
        (["sm_103"], "sm_100"),
        (["sm_121"], "sm_120"),
        (["sm_120", "sm_80"], "sm_80"),
    ],
)
def test_a_gpu_runs_what_is_compiled_for_an_earlier_one(capabilities: list[str], name: str) -> None:
    assert machine_of(*capabilities).name == name


def test_a_gpu_may_be_too_old() -> None:
    with pytest.raises(NoDeviceError, match="must be sm_80 or later, got sm_75"):
        machine_of("sm_90", "sm_75")


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
