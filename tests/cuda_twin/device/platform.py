"""The platform `cuda` on the twin: its workers are processes whose device is the host's memory."""

import atexit
import functools
import os
import sys
from pathlib import Path
from typing import Any

from tests.cuda_twin.device.toolchain import HostToolchain
from tests.cuda_twin.device.twin import DEVICE
from xla_server.backends.cuda.backend import Cuda

ROOT = Path(__file__).parents[3]
CHILD = "xla_server.backends.cuda.worker.child"


def worker_command(device: str = "TwinDriver") -> list[str]:
    """Return the command of a worker on the twin of a device, by the name of its class."""
    driver = f"tests.cuda_twin.device.driver:{device}"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return ["env", f"PYTHONPATH={path}", sys.executable, "-P", "-m", CHILD, "--driver", driver]


def twin_platform(device_count: int = 1, device: str = "TwinDriver", **options: Any) -> Cuda:
    """Return a platform on the twin, which its user closes."""
    return Cuda(
        device_count,
        worker_command=worker_command(device),
        toolchain=HostToolchain(DEVICE),
        machine=DEVICE,
        **options,
    )


@functools.cache
def shared_platform() -> Cuda:
    """Return the platform that the tests of a process share."""
    platform = twin_platform()
    atexit.register(platform.close)
    return platform
