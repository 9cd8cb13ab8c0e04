"""Costs of a GPU's driver itself: copies, transfers, launches; and rates of kernels beside them.

Kernels have their arrays already: a rate has no cost of memory or of a worker in it.
"""

import dataclasses
import math
import mmap
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.cuda_twin.device.test_twin import AT, moving
from tests.cuda_twin.programs import kernel_of
from tests.unit.codegen.compiled import built
from xla_client import Op, ops
from xla_client.lib import activations, arithmetic
from xla_server.backends.cuda.toolchain import Toolchain
from xla_server.backends.cuda.worker.device.driver import (
    DeviceCopy,
    Driver,
    KernelLaunch,
    PreparedCall,
)
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.lower.contraction.dot import plan_of
from xla_server.target.gpu.properties import PRODUCT_DEPTH

REPETITIONS = 5
LAUNCHES = 1000
"""Repetitions of work that takes microseconds."""

_NODES = 12

GRAPH_CALLS = 20
"""Calls of one graph, each of which waits for the one before."""

_FLAT, _ROWS, _SHORT_ROWS = (), (8192,), (1024,)

PROGRAMS: Mapping[str, tuple[Callable[..., Op], int, tuple[int, ...]]] = {
    "-a": (ops.neg, 1, _FLAT),
    "a + b": (ops.add, 2, _FLAT),
    "exp": (ops.exp, 1, _FLAT),
    "sum of rows of 8192": (lambda x: arithmetic.sum(x, [1]), 1, _ROWS),
    "sum of columns": (lambda x: arithmetic.sum(x, [0]), 1, _ROWS),
    "softmax of rows of 8192": (activations.softmax, 1, _ROWS),
    "softmax of rows of 1024": (activations.softmax, 1, _SHORT_ROWS),
    "transpose": (lambda x: ops.transpose(x, [1, 0]), 1, _ROWS),
}
"""Functions of f32 arrays, how many these are, and the sizes of their dimensions but the first."""

PRODUCT = ((128, PRODUCT_DEPTH), (PRODUCT_DEPTH, 512))
"""The operands of the largest product of f32 that a kernel computes, and not a library."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """A kernel, and the bytes of its operands and its result."""

    grid: GridKernel
    byte_size: int

    @classmethod
    def of(
        cls, function: Callable[..., Op], operands: int, inner: tuple[int, ...], count: int
    ) -> "Measured":
        """Return that of a function of arrays of so many elements."""
        sizes = (count // math.prod(inner), *inner)
        module = built(function, [np.broadcast_to(np.float32(0), sizes)] * operands)
        root = module.entry.root
        result = 4 * root.shape.element_count
        return cls(kernel_of(module, root), 4 * count * operands + result)


class _Bench:
    """A driver with two streams, three arrays of `byte_size`, and the code that is measured."""

    def __init__(self, driver: Driver, toolchain: Toolchain, byte_size: int) -> None:
        self.driver, self.byte_size = driver, byte_size
        self.stream, self.other = driver.new_stream(), driver.new_stream()
        self.arrays = [driver.allocate(byte_size, self.stream) for _ in range(3)]
        self.kernels = [Measured.of(*program, byte_size // 4) for program in PROGRAMS.values()]
        multiplied = built(ops.dot, [np.zeros(sizes, np.float32) for sizes in PRODUCT])
        dot = multiplied.entry.root
        self.small, plan = kernel_of(multiplied, dot), plan_of(dot)
        assert plan is not None
        self.library = driver.prepare(plan)
        self.workspace = driver.allocate(plan.memory_bytes, self.stream)
        grids = {f"k{number}": each.grid for number, each in enumerate(self.kernels)}
        grids |= {"product": self.small, "one": moving(AT, AT, 1)}
        module = toolchain.compile(grids)
        *self.loaded, self.product, self.one = driver.load(module.code, list(grids))
        self.host = memoryview(mmap.mmap(-1, min(byte_size, 256 << 20)))
        driver.pin(self.host)
        self.copied = self.rate(2 * byte_size, self.copy)

    def seconds(self, work: Callable[[], None], repetitions: int = REPETITIONS) -> float:
        """Return the time of work that was given to the first stream."""
        work()
        self.driver.synchronise(self.stream)
        started = time.perf_counter()
        for _ in range(repetitions):
            work()
        self.driver.synchronise(self.stream)
        return (time.perf_counter() - started) / repetitions

    def rate(self, moved: int, work: Callable[[], None]) -> float:
        """Return GB/s of work that moves so many bytes."""
        return moved / self.seconds(work) / 1e9

    def copy(self) -> None:
        """Copy an array to another."""
        whole = DeviceCopy(self.arrays[1], self.arrays[0], self.byte_size)
        self.driver.enqueue(whole, self.stream)

    def launch(self) -> None:
        """Launch a kernel of one block."""
        self.driver.enqueue(self.small_launch, self.stream)

    @property
    def small_launch(self) -> KernelLaunch:
        """The launch of one block."""
        return KernelLaunch(self.one, 1, 32, 0, self.arrays[:2])

    def shares(self) -> Mapping[str, float]:
        """Return the rates of kernels as shares of that of a copy."""
        return {
            f"{name}, of a copy": self._share(kernel, code)
            for name, kernel, code in zip(PROGRAMS, self.kernels, self.loaded, strict=True)
        }

    def _share(self, kernel: Measured, code: Any) -> float:
        grid = kernel.grid
        given = self.arrays[: len(grid.kernel.buffers)]
        launch = KernelLaunch(code, grid.blocks, grid.threads, 0, given)
        moved = self.rate(kernel.byte_size, lambda: self.driver.enqueue(launch, self.stream))
        return moved / self.copied

    def transfers(self) -> Mapping[str, float]:
        """Return rates between the host and the device."""
        driver, first, host = self.driver, self.arrays[0], self.host
        pageable = np.ones(len(host), np.uint8).data
        works: Mapping[str, Callable[[], None]] = {
            "upload GB/s": lambda: driver.upload(first, host, self.stream),
            "download GB/s": lambda: driver.download(host, first, self.stream),
            "upload of pageable GB/s": lambda: driver.upload(first, pageable, self.stream),
        }
        rates = {name: self.rate(len(host), work) for name, work in works.items()}
        return rates | {"upload beside copies, of alone": self._upload_beside()}

    def _upload(self) -> float:
        begun = time.perf_counter()
        self.driver.upload(self.arrays[2], self.host, self.other)
        self.driver.synchronise(self.other)
        return time.perf_counter() - begun

    def _upload_beside(self) -> float:
        """Return the rate of an upload while another stream copies, as a share of it alone."""
        alone = min(self._upload() for _ in range(REPETITIONS))
        for _ in range(math.ceil(4 * alone * self.copied * 1e9 / (2 * self.byte_size))):
            self.copy()
        beside = self._upload()
        self.driver.synchronise(self.stream)
        return alone / beside

    def launches(self) -> Mapping[str, float]:
        """Return microseconds of launches, alone and in graphs."""
        driver, stream = self.driver, self.stream
        driver.begin_capture(stream)
        nodes = [driver.capture(self.small_launch, stream) for _ in range(_NODES)]
        graph = driver.end_capture(stream)
        changed = self.small_launch._replace(addresses=(self.arrays[0], self.arrays[2]))

        def launch_and_wait() -> None:
            self.launch()
            driver.synchronise(stream)

        def change_and_launch() -> None:
            for node in nodes:
                driver.change_node(graph, node, changed, stream)
            driver.launch_graph(graph, stream)

        works: Mapping[str, Callable[[], None]] = {
            "launch us": self.launch,
            "launch and wait us": launch_and_wait,
            f"graph of {_NODES} launches us": lambda: driver.launch_graph(graph, stream),
            "the same with new addresses us": change_and_launch,
            "allocate and free us": lambda: driver.free(driver.allocate(1 << 20, stream), stream),
        }
        return {name: 1e6 * self.seconds(work, LAUNCHES) for name, work in works.items()}

    def products(self) -> Mapping[str, float]:
        """Return microseconds of a product in a graph, by a kernel and by a library."""
        driver, small = self.driver, self.small
        call = PreparedCall(self.library, (*self.arrays, self.workspace))
        launch = KernelLaunch(self.product, small.blocks, small.threads, 0, self.arrays)
        works: Mapping[str, Callable[[], None]] = {
            "small product in a graph us": lambda: driver.enqueue(launch, self.stream),
            "the same by the library us": lambda: driver.enqueue(call, self.stream),
        }
        return {name: self._in_graph(work) for name, work in works.items()}

    def _in_graph(self, work: Callable[[], None]) -> float:
        self.driver.begin_capture(self.stream)
        for _ in range(GRAPH_CALLS):
            work()
        graph = self.driver.end_capture(self.stream)
        seconds = self.seconds(lambda: self.driver.launch_graph(graph, self.stream))
        return 1e6 * seconds / GRAPH_CALLS


def figures(driver: Driver, toolchain: Toolchain, byte_size: int = 1 << 30) -> Mapping[str, float]:
    """Return rates in GB/s, read and written bytes counted, and microseconds of launches.

    `byte_size` is of the largest array, of which there are three. Rates of kernels are shares of
    that of a copy.
    """
    driver.make_current()
    bench = _Bench(driver, toolchain, byte_size)
    return {
        "copy GB/s": bench.copied,
        **bench.shares(),
        **bench.transfers(),
        **bench.launches(),
        **bench.products(),
    }
