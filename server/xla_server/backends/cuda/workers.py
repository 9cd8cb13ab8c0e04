"""Devices of this machine, and their workers."""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from xla_server.backends.cuda import probe
from xla_server.backends.cuda.worker import child
from xla_server.backends.cuda.worker.exchange.protocol import NoDeviceError
from xla_server.backends.cuda.worker.supervisor.process import DeviceWorker
from xla_server.target.gpu.properties import GPUS
from xla_server.target.machine import Machine

WORKER = (sys.executable, "-P", "-m", child.__name__)
"""The command of a worker."""

_TIMEOUT = 60.0
"""Timeout of the query for devices, in seconds."""


def count_devices() -> int:
    """Return the number of devices that the driver has; raises NoDeviceError, with a sentence.

    A separate process does so: a server that has called the driver cannot start others safely.
    """
    command = [sys.executable, "-P", "-m", probe.__name__]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise NoDeviceError(f"the driver must say what devices it has, got {error}") from None
    return read_count(ended.stdout)


def read_count(line: str) -> int:
    """Return the number in the process's output; raises as `count_devices`."""
    try:
        found = json.loads(line)
    except ValueError:
        raise NoDeviceError(f"the driver must say what devices it has, got {line!r}") from None
    if "missing" in found:
        raise NoDeviceError(found["missing"])
    count: int = found["count"]
    return count


def start_workers(count: int, command: Sequence[str] = WORKER) -> list[DeviceWorker]:
    """Start the workers of the first devices; if one raises NoDeviceError, end the others."""
    with ThreadPoolExecutor(count) as threads:
        started = [threads.submit(DeviceWorker, ordinal, command) for ordinal in range(count)]
    faults = [each.exception() for each in started]
    fault = next(filter(None, faults), None)
    if fault is None:
        return [each.result() for each in started]
    for each, error in zip(started, faults, strict=True):
        if error is None:
            each.result().close()
    raise fault


def machine_of(workers: Sequence[DeviceWorker]) -> Machine:
    """Return the machine to compile for: the oldest of these devices, whose code the others run."""
    found = {worker.description.capability for worker in workers}
    return Machine.cuda(next(name for name in GPUS if name in found))


def device_bytes(worker: DeviceWorker, fraction: float) -> int:
    """Return the bytes of a device's memory that may be used."""
    return int(worker.description.total_bytes * fraction)
