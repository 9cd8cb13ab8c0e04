"""Checks of a driver alone, without a platform: memory, copies, streams, one kernel."""

import mmap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.cuda.checks.outcomes import Check, error_of
from tests.cuda_twin.device.test_twin import AT, moving
from xla_contract.types.element_type import ElementType
from xla_server.backends.cuda.toolchain import Toolchain
from xla_server.backends.cuda.worker.device.driver import (
    CaseIndex,
    DeviceCopy,
    Driver,
    KernelLaunch,
    LoopCondition,
    PreparedCall,
)
from xla_server.backends.cuda.worker.exchange.protocol import OutOfDeviceMemoryError
from xla_server.codegen.gpu.plans.library_plans import GemmPlan, Matrix
from xla_server.codegen.kernel_ir.expressions import Index

COUNT = 1 << 16

SIDE = 64
"""Rows and columns of a matrix."""

_PINNED: list[mmap.mmap] = []
"""Memory that a driver has pinned, which must stay."""


def driver_checks(driver: Driver, toolchain: Toolchain) -> Iterator[Check]:
    """Yield the checks of a driver, in order."""
    checked = _Checked(driver, toolchain)
    names = (
        "describes",
        "copies",
        "counts_bytes",
        "refuses_too_much",
        "launches",
        "changes_graphs",
        "changes_copies_and_calls",
        "changes_loops",
        "loops",
        "orders_streams",
        "threads",
    )
    for name in names:
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
            driver.enqueue(DeviceCopy(second, first, size), stream)
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

    def _mirrors(self) -> list[Any]:
        """Return a kernel that writes COUNT numbers backward, also as the driver compiles it."""
        back = Index(COUNT - 1, ((AT.terms[0][0], -1),))
        module = self._toolchain.compile({"k": moving(back, AT, COUNT)})
        codes = dict.fromkeys([module.code, module.ptx])
        return [kernel for code in codes for kernel in self._driver.load(code, ["k"])]

    def launches(self) -> None:
        for kernel in self._mirrors():
            self._launches(kernel)

    def _launches(self, kernel: Any) -> None:
        driver, stream = self._driver, self._driver.new_stream()
        numbers = np.arange(COUNT, dtype=np.float32)
        found = np.zeros_like(numbers)
        given, made = (driver.allocate(numbers.nbytes, stream) for _ in range(2))
        driver.upload(given, numbers.data.cast("B"), stream)
        driver.enqueue(KernelLaunch(kernel, COUNT // 32, 32, 0, (given, made)), stream)
        driver.download(found.data.cast("B"), made, stream)
        driver.synchronise(stream)
        assert np.array_equal(found, numbers[::-1])

    def changes_graphs(self) -> None:
        """A graph of two launches, the second of which gets other addresses before each launch."""
        kernel, driver, stream = self._mirrors()[0], self._driver, self._driver.new_stream()
        numbers = np.arange(COUNT, dtype=np.float32)
        given, first, *seconds = (driver.allocate(numbers.nbytes, stream) for _ in range(5))
        driver.upload(given, numbers.data.cast("B"), stream)
        launch = KernelLaunch(kernel, COUNT // 32, 32, 0, (given, first))
        driver.begin_capture(stream)
        driver.enqueue(launch, stream)
        node = driver.capture(launch._replace(addresses=(first, seconds[0])), stream)
        graph = driver.end_capture(stream)
        driver.launch_graph(graph, stream)
        for addresses in ((first, seconds[1]), (given, seconds[2])):
            # The launch before it may not have begun.
            driver.change_node(graph, node, launch._replace(addresses=addresses), stream)
            driver.launch_graph(graph, stream)
        for address, expected in zip(seconds, (1, 1, -1), strict=True):
            found = np.zeros_like(numbers)
            driver.download(found.data.cast("B"), address, stream)
            driver.synchronise(stream)
            assert np.array_equal(found, numbers[::expected]), address

    def changes_copies_and_calls(self) -> None:
        """A graph of a copy and a product with ones, which get other addresses each time."""
        self._changes(is_loop=False)

    def changes_loops(self) -> None:
        """The same in a loop of one turn, whose predicate has another address, too."""
        self._changes(is_loop=True)

    def _changes(self, *, is_loop: bool) -> None:
        driver, stream = self._driver, self._driver.new_stream()
        form = Matrix(ElementType.F32, SIDE)
        plan = GemmPlan(1, SIDE, SIDE, SIDE, form, form, form)
        prepared = driver.prepare(plan)
        ones = np.eye(SIDE, dtype=np.float32)
        matrices = [np.full_like(ones, number) for number in range(3)]
        workspace, unit = (
            driver.allocate(size, stream) for size in (plan.memory_bytes, ones.nbytes)
        )
        driver.upload(unit, ones.data.cast("B"), stream)
        places = [[driver.allocate(ones.nbytes, stream) for _ in range(3)] for _ in matrices]
        works = [
            (
                DeviceCopy(copied, given, ones.nbytes),
                PreparedCall(prepared, (copied, unit, made, workspace)),
            )
            for given, copied, made in places
        ]
        for matrix, (given, *_) in zip(matrices, places, strict=True):
            driver.upload(given, matrix.data.cast("B"), stream)
        zero, *flags = (driver.allocate(1, stream) for _ in range(4))
        for number, address in enumerate([zero, *flags]):
            driver.upload(address, memoryview(bytes([number > 0])), stream)
        ends = [DeviceCopy(flag, zero, 1) for flag in flags]
        conditions = [LoopCondition(flag, self._pinned()[1]) for flag in flags]
        parts = [(*work, end) for work, end in zip(works, ends, strict=True)]
        nodes: list[Any] = []

        def capture(inner: int) -> None:
            nodes.extend(driver.capture(work, inner) for work in parts[0])

        driver.begin_capture(stream)
        loop = driver.capture_loop(conditions[0], capture, stream) if is_loop else capture(stream)
        graph = driver.end_capture(stream)
        for number, changed in enumerate(parts):
            if number:
                for node, work in zip(nodes, changed, strict=True):
                    driver.change_node(graph, node, work, stream)
                if is_loop:
                    driver.change_node(graph, loop, conditions[number], stream)
            driver.launch_graph(graph, stream)
        for matrix, (*_, made) in zip(matrices, places, strict=True):
            found = np.zeros_like(matrix)
            driver.download(found.data.cast("B"), made, stream)
            driver.synchronise(stream)
            assert np.array_equal(found, matrix), made

    def _pinned(self) -> tuple[mmap.mmap, int]:
        """Return pinned memory of zeros, and its address on the device."""
        word = mmap.mmap(-1, mmap.PAGESIZE)
        _PINNED.append(word)
        return word, self._driver.pin(memoryview(word))

    def loops(self) -> None:
        """A graph with a loop of three turns, with cases in it, and the same with a stop."""
        kernel, driver, stream = self._mirrors()[0], self._driver, self._driver.new_stream()
        word, stop = self._pinned()
        numbers = np.arange(COUNT, dtype=np.float32)
        data = numbers.data.cast("B")
        given, made = (driver.allocate(data.nbytes, stream) for _ in range(2))
        # Flags that each turn moves by one, with the first as predicate and index; -1 as an index.
        flags, moved, minus, marks = (driver.allocate(8, stream) for _ in range(4))

        def mark(number: int) -> Callable[[int], None]:
            return lambda inner: driver.enqueue(DeviceCopy(marks + number, minus, 1), inner)

        def turn(inner: int) -> None:
            driver.enqueue(DeviceCopy(moved, flags + 1, 4), inner)
            driver.enqueue(DeviceCopy(flags, moved, 4), inner)
            driver.enqueue(KernelLaunch(kernel, COUNT // 32, 32, 0, (given, made)), inner)
            driver.enqueue(DeviceCopy(given, made, data.nbytes), inner)
            driver.capture_case(CaseIndex(flags, 1, 3), [mark(0), mark(1), mark(2)], inner)
            driver.capture_case(CaseIndex(minus, 4, 2), [mark(3), mark(4)], inner)

        driver.begin_capture(stream)
        driver.capture_loop(LoopCondition(flags, stop), turn, stream)
        graph = driver.end_capture(stream)
        for is_stopped in (False, True, False):
            word[0] = is_stopped
            for address, source in {
                given: data,
                flags: memoryview(b"\1\1\1\0\0\0\0\0"),
                minus: memoryview(b"\xff" * 8),
                marks: memoryview(bytes(8)),
            }.items():
                driver.upload(address, source, stream)
            driver.launch_graph(graph, stream)
            found, marked = np.zeros_like(numbers), bytearray(8)
            driver.download(found.data.cast("B"), given, stream)
            driver.download(memoryview(marked), marks, stream)
            driver.synchronise(stream)
            assert np.array_equal(found, numbers if is_stopped else numbers[::-1]), is_stopped
            assert marked == (bytes(8) if is_stopped else b"\xff\xff\0\0\xff\0\0\0"), marked

    def orders_streams(self) -> None:
        """Streams whose work reads what the one before writes, and that the host waits for last."""
        driver, size = self._driver, 8 << 20
        streams = [driver.new_stream() for _ in range(4)]
        given = np.random.default_rng(0).integers(0, 256, size, np.uint8)
        found = np.zeros_like(given)
        pieces = [driver.allocate(size, streams[0]) for _ in streams]
        driver.upload(pieces[0], given.data, streams[0])
        for number, stream in enumerate(streams[1:]):
            driver.wait_for(driver.record(streams[number]), stream)
            driver.enqueue(DeviceCopy(pieces[number + 1], pieces[number], size), stream)
        driver.download(found.data, pieces[-1], streams[-1])
        driver.synchronise(streams[-1])
        assert np.array_equal(given, found)
        for stream, piece in zip(streams, pieces, strict=True):
            driver.free(piece, stream)

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
