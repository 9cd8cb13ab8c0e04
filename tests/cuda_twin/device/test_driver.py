"""The twin as a worker's driver: it finds what a driver of a GPU ends a process for, or never."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.cuda_twin.device.driver import DelayedTwin, SmallTwin, TwinDriver
from tests.cuda_twin.device.test_twin import AT, moving
from tests.cuda_twin.device.toolchain import HostToolchain
from tests.cuda_twin.device.twin import DEVICE
from xla_server.backends.cuda.worker.device.driver import DeviceCopy, KernelLaunch
from xla_server.backends.cuda.worker.exchange.protocol import (
    DeviceLostError,
    OutOfDeviceMemoryError,
)
from xla_server.codegen.kernel_ir.expressions import Index

COUNT = 32
NUMBERS = np.arange(COUNT, dtype=np.float32)
BACK = Index(COUNT - 1, ((AT.terms[0][0], -1),))


class Held:
    """A device with an array of numbers and memory for another, and the kernel that turns it."""

    def __init__(self, driver: TwinDriver) -> None:
        self.driver, self.stream = driver, driver.new_stream()
        self.given, self.made = (driver.allocate(4 * COUNT, self.stream) for _ in range(2))
        module = HostToolchain(DEVICE).compile({"k": moving(BACK, AT, COUNT)})
        (self.kernel,) = driver.load(module.code, ["k"])
        self.found = np.zeros(COUNT, np.float32)

    def run(self) -> None:
        """Give the stream an upload, a launch and a download."""
        self.driver.upload(self.given, NUMBERS.data, self.stream)
        launch = KernelLaunch(self.kernel, 1, 32, 0, (self.given, self.made))
        self.driver.enqueue(launch, self.stream)
        self.driver.download(self.found.data, self.made, self.stream)


def test_a_stream_does_its_work_in_order() -> None:
    held = Held(TwinDriver())
    held.run()
    held.driver.synchronise(held.stream)
    assert held.found.tolist() == NUMBERS[::-1].tolist()


def test_a_device_that_delays_does_nothing_before_it_is_waited_for() -> None:
    held = Held(DelayedTwin())
    held.run()
    held.driver.free(held.given, held.stream)
    assert not held.found.any()
    held.driver.synchronise(held.stream)
    assert held.found.tolist() == NUMBERS[::-1].tolist()


def test_streams_with_events_that_others_have_done_do_not_wait_for_each_other() -> None:
    driver = DelayedTwin()
    streams = [driver.new_stream() for _ in range(2)]
    done = [driver.record(stream) for stream in streams]
    for stream in streams:
        driver.synchronise(stream)
    begun = threading.Barrier(2)
    for stream, event in zip(streams, reversed(done), strict=True):
        driver._enqueue(stream, begun.wait)
        driver.wait_for(event, stream)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(driver.synchronise, streams))


def test_memory_is_bounded_and_what_is_freed_can_be_had_again() -> None:
    driver = SmallTwin()
    stream, half = driver.new_stream(), driver.total_bytes // 2
    first = driver.allocate(half, stream)
    with pytest.raises(OutOfDeviceMemoryError) as caught:
        driver.allocate(half + 1, stream)
    error = caught.value
    assert (error.requested, error.free, error.total) == (half + 1, half, 2 * half)
    driver.free(first, stream)
    assert driver.free_bytes() == driver.total_bytes
    driver.allocate(driver.total_bytes, stream)


def test_a_copy_is_inside_of_memory_and_its_parts_apart() -> None:
    held = Held(TwinDriver())
    held.driver.upload(held.given, NUMBERS.data, held.stream)
    held.driver.enqueue(DeviceCopy(held.made, held.given, 4 * COUNT), held.stream)
    held.driver.download(held.found.data, held.made, held.stream)
    assert held.found.tolist() == NUMBERS.tolist()
    with pytest.raises(DeviceLostError, match="illegal address"):
        held.driver.enqueue(DeviceCopy(held.made, held.given, 4 * COUNT + 1), held.stream)
    with pytest.raises(DeviceLostError, match="must not overlap"):
        held.driver.enqueue(DeviceCopy(held.given + 4, held.given, 8), held.stream)


def test_a_launch_has_the_form_of_its_kernel() -> None:
    held = Held(TwinDriver())
    addresses = held.given, held.made
    for blocks, threads, given in ((0, 32, addresses), (1, 64, addresses), (1, 32, addresses[:1])):
        launch = KernelLaunch(held.kernel, blocks, threads, 0, given)
        with pytest.raises(DeviceLostError, match="must be launched in blocks of 32 threads"):
            held.driver.enqueue(launch, held.stream)
    launch = KernelLaunch(held.kernel, 1, 32, 0, (held.given, 0))
    with pytest.raises(DeviceLostError, match="illegal address: 0 bytes at 0x0"):
        held.driver.enqueue(launch, held.stream)


def test_what_is_stored_beside_memory_is_found_when_it_is_freed() -> None:
    driver = TwinDriver()
    stream = driver.new_stream()
    address = driver.allocate(4 * COUNT, stream)
    driver.upload(address, NUMBERS.data, stream)
    module = HostToolchain(DEVICE).compile({"k": moving(AT, Index(-1, ((AT.terms[0][0], 1),)), 1)})
    (kernel,) = driver.load(module.code, ["k"])
    driver.enqueue(KernelLaunch(kernel, 1, 32, 0, (address, address)), stream)
    with pytest.raises(DeviceLostError, match="stored beside memory"):
        driver.free(address, stream)
    with pytest.raises(DeviceLostError, match="must be freed once"):
        driver.free(address, stream)


_TOUCHED = """
from tests.cuda_twin.device.test_driver import Held, TwinDriver
held = Held(TwinDriver())
{before}
held.kernel.launch(1, 32, (held.given, held.made))
print("done")
"""


@pytest.mark.parametrize(
    ("before", "ends_well"),
    [
        ("", True),
        ("held.driver.free(held.made, held.stream)", False),
        ("held.made += 64", False),
    ],
)
def test_an_access_outside_of_memory_ends_the_process(before: str, ends_well: bool) -> None:
    command = [sys.executable, "-c", _TOUCHED.format(before=before)]
    found = subprocess.run(command, capture_output=True, check=False)
    assert (found.stdout == b"done\n") == ends_well
    assert (found.returncode == 0) == ends_well
