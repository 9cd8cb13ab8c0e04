"""Costs of a GPU's driver itself: copies, transfers, launches."""

import mmap
import time
from collections.abc import Callable, Mapping

import numpy as np

from tests.cuda_twin.programs import kernel_of
from tests.cuda_twin.test_twin import AT, moving
from tests.unit.codegen.compiled import built
from xla_client import ops
from xla_server.backends.cuda.toolchain import Toolchain
from xla_server.backends.cuda.worker.device.driver import Driver

REPETITIONS = 5


def figures(driver: Driver, toolchain: Toolchain, byte_size: int = 1 << 30) -> Mapping[str, float]:
    """Return rates in GB/s, read and written bytes counted, and microseconds of launches.

    `byte_size` is of the largest array, of which there are two.
    """
    driver.make_current()
    stream = driver.new_stream()
    first, second = (driver.allocate(byte_size, stream) for _ in range(2))
    count, staged = byte_size // 4, min(byte_size, 256 << 20)
    negated = built(ops.neg, [np.broadcast_to(np.float32(0), (count,))])
    grid = kernel_of(negated, negated.entry.root)
    module = toolchain.compile({"all": grid, "one": moving(AT, AT, 1)})
    every, one = driver.load(module, ["all", "one"])
    host = memoryview(mmap.mmap(-1, staged))
    driver.pin(host)
    pageable = np.ones(staged, np.uint8).data

    def seconds(work: Callable[[], None], repetitions: int = REPETITIONS) -> float:
        work()
        driver.synchronise(stream)
        started = time.perf_counter()
        for _ in range(repetitions):
            work()
        driver.synchronise(stream)
        return (time.perf_counter() - started) / repetitions

    def move() -> None:
        driver.launch(every, grid.blocks, grid.threads, 0, (first, second), stream)

    def launch() -> None:
        driver.launch(one, 1, 32, 0, (first, second), stream)

    def launch_and_wait() -> None:
        launch()
        driver.synchronise(stream)

    def allocate_and_free() -> None:
        driver.free(driver.allocate(1 << 20, stream), stream)

    def rate(moved: int, work: Callable[[], None]) -> float:
        return moved / seconds(work) / 1e9

    return {
        "copy GB/s": rate(2 * byte_size, lambda: driver.copy(second, first, byte_size, stream)),
        "kernel that negates GB/s": rate(2 * byte_size, move),
        "upload GB/s": rate(staged, lambda: driver.upload(first, host, stream)),
        "download GB/s": rate(staged, lambda: driver.download(host, first, stream)),
        "upload of pageable GB/s": rate(staged, lambda: driver.upload(first, pageable, stream)),
        "launch us": 1e6 * seconds(launch, 1000),
        "launch and wait us": 1e6 * seconds(launch_and_wait, 1000),
        "allocate and free us": 1e6 * seconds(allocate_and_free, 1000),
    }
