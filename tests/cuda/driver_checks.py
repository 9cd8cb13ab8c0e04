"""Checks of a driver alone, without a platform: memory, copies, streams, one kernel."""

import threading
from collections.abc import Iterator

import numpy as np

from tests.cuda.outcomes import Check, error_of
from tests.cuda_twin.test_twin import AT, moving
from xla_server.backends.cuda.toolchain import Toolchain
from xla_server.backends.cuda.worker.device.driver import Driver
from xla_server.backends.cuda.worker.exchange.protocol import OutOfDeviceMemoryError
from xla_server.codegen.kernel_ir.expressions import Index

COUNT = 1 << 16


def driver_checks(driver: Driver, toolchain: Toolchain) -> Iterator[Check]:
    """Yield the checks of a driver, in order."""
    checked = _Checked(driver, toolchain)
    for name in ("describes", "copies", "counts_bytes", "refuses_too_much", "launches", "threads"):
        yield name.replace("_", " "), getattr(checked, name)


class _Checked:
    """A driver under test."""

    def __init__(self, driver: Driver, toolchain: Toolchain) -> None:
        self._driver, self._toolchain = driver, toolchain
        driver.make_current()

    def describes(self) -> None:
        found = self._driver.description
        assert found.capability.startswith("sm_"), found
        assert 0 < found.free_bytes <= found.total_bytes, found
        assert found.multiprocessors > 0, found

    def copies(self) -> None:
        driver, stream = self._driver, self._driver.new_stream()
        for size in (1, 3, 4096, (8 << 20) + 5):
            given = np.random.default_rng(size).integers(0, 256, size, np.uint8)
            found = np.zeros_like(given)
            first, second = (driver.allocate(size, stream) for _ in range(2))
            driver.upload(first, given.data, stream)
            driver.copy(second, first, size, stream)
            driver.download(found.data, second, stream)
            driver.synchronise(stream)
            assert np.array_equal(given, found), f"{size} bytes"
            for address in (first, second):
                driver.free(address, stream)
        driver.synchronise(stream)

    def counts_bytes(self) -> None:
        driver, stream = self._driver, self._driver.new_stream()
        before, size = driver.free_bytes(), 256 << 20
        address = driver.allocate(size, stream)
        driver.synchronise(stream)
        during = driver.free_bytes()
        assert during <= before, f"{before} bytes were free, {during} with {size} taken"
        driver.free(address, stream)
        driver.synchronise(stream)

    def refuses_too_much(self) -> None:
        driver, stream = self._driver, self._driver.new_stream()
        wanted = 2 * driver.description.total_bytes
        error = error_of(OutOfDeviceMemoryError, lambda: driver.allocate(wanted, stream))
        assert error.requested == wanted, error
        self.copies()

    def launches(self) -> None:
        back = Index(COUNT - 1, ((AT.terms[0][0], -1),))
        module = self._toolchain.compile({"k": moving(back, AT, COUNT)})
        (kernel,) = self._driver.load(module, ["k"])
        driver, stream = self._driver, self._driver.new_stream()
        numbers = np.arange(COUNT, dtype=np.float32)
        found = np.zeros_like(numbers)
        given, made = (driver.allocate(numbers.nbytes, stream) for _ in range(2))
        driver.upload(given, numbers.data.cast("B"), stream)
        driver.launch(kernel, COUNT // 32, 32, 0, (given, made), stream)
        driver.download(found.data.cast("B"), made, stream)
        driver.synchronise(stream)
        assert np.array_equal(found, numbers[::-1])

    def threads(self) -> None:
        errors: list[BaseException] = []

        def work() -> None:
            try:
                self._driver.make_current()
                for _ in range(5):
                    self.copies()
            except BaseException as error:
                errors.append(error)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        if errors:
            raise errors[0]
