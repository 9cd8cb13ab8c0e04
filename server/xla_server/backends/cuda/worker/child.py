"""The worker process of one device, which the server starts.

`--driver MODULE:CLASS` names another Driver, which is made with the device's number.
"""

import argparse
import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable

from xla_server.backends.cuda.worker.connection import Connection
from xla_server.backends.cuda.worker.device.driver import Driver
from xla_server.backends.cuda.worker.exchange.messages import HEAD, send
from xla_server.backends.cuda.worker.exchange.protocol import NoDeviceError
from xla_server.backends.cuda.worker.exchange.shared_memory import SharedMemory
from xla_server.backends.cuda.worker.executor import OwnedDevice

_DRIVER = "xla_server.backends.cuda.worker.device.cuda_driver:CudaDriver"


def main() -> None:
    """Open the device, report its properties, and serve connections until the server has ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", default=_DRIVER)
    parser.add_argument("--ordinal", type=int, required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--shared", type=int, required=True)
    arguments = parser.parse_args()
    # A terminal and systemd signal the whole group; the server decides when workers end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=arguments.control)
    shared = SharedMemory(arguments.shared)
    try:
        driver = _driver(arguments.driver)(arguments.ordinal)
    except NoDeviceError as error:
        send(control, error)
        return
    try:
        shared.device_address = driver.pin(shared.view)
    except Exception as error:
        # Without it copies are slower and graphs have no loops, but results are the same.
        print(f"shared memory is not pinned: {error}", file=sys.stderr, flush=True)
    device = OwnedDevice(driver, shared)
    send(control, driver.description)
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, HEAD.size, 1)
        except OSError:
            data = b""
        if not data:
            # Threads may be blocked in the driver, so the process ends without joining them.
            os._exit(0)
        (index,) = HEAD.unpack(data)
        Connection(device, socket.socket(fileno=descriptors[0]), index).start()


def _driver(name: str) -> Callable[[int], Driver]:
    module, _, attribute = name.partition(":")
    found: Callable[[int], Driver] = getattr(importlib.import_module(module), attribute)
    return found


if __name__ == "__main__":
    main()
