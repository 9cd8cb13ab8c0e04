"""Costs of a GPU's driver itself: copies, transfers, launches; and rates of kernels beside them.

Kernels have their arrays already: a rate has no cost of memory or of a worker in it.
"""

import dataclasses
import math
import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.cuda_twin.device.test_twin import AT, moving
from tests.cuda_twin.programs import kernel_of
from tests.unit.codegen.compiled import built
from xla_client import Op, ops
from xla_client.lib import activations, arithmetic
from xla_server.backends.cuda.toolchain import Toolchain
from xla_server.backends.cuda.worker.device.driver import CapturingDriver, Driver
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.lower.contraction.dot import plan_of
from xla_server.target.gpu import PRODUCT_DEPTH

REPETITIONS = 5
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


def _graph(
    driver: CapturingDriver, launch: Callable[[], None], stream: int
) -> tuple[Any, Sequence[Any]]:
    """Return a graph of launches, and its nodes."""
    driver.begin_capture(stream)
    nodes = []
    for _ in range(_NODES):
        launch()
        nodes.append(driver.captured_node(stream))
    return driver.end_capture(stream), nodes


def figures(driver: Driver, toolchain: Toolchain, byte_size: int = 1 << 30) -> Mapping[str, float]:
    """Return rates in GB/s, read and written bytes counted, and microseconds of launches.

    `byte_size` is of the largest array, of which there are three. Rates of kernels are shares of
    that of a copy.
    """
    driver.make_current()
    assert isinstance(driver, CapturingDriver)
    stream, other = driver.new_stream(), driver.new_stream()
    first, second, third = (driver.allocate(byte_size, stream) for _ in range(3))
    staged = min(byte_size, 256 << 20)
    kernels = [Measured.of(*program, byte_size // 4) for program in PROGRAMS.values()]
    multiplied = built(ops.dot, [np.zeros(sizes, np.float32) for sizes in PRODUCT])
    dot = multiplied.entry.root
    small, plan = kernel_of(multiplied, dot), plan_of(dot)
    assert plan is not None
    library, room = driver.prepare(plan), driver.allocate(plan.memory_bytes, stream)
    grids = {f"k{number}": each.grid for number, each in enumerate(kernels)} | {"product": small}
    module = toolchain.compile({**grids, "one": moving(AT, AT, 1)})
    *loaded, product, one = driver.load(module.code, [*grids, "one"])
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

    def share(kernel: Measured, code: Any) -> float:
        grid = kernel.grid
        given = (first, second, third)[: len(grid.kernel.buffers)]

        def move() -> None:
            driver.launch(code, grid.blocks, grid.threads, 0, given, stream)

        return rate(kernel.byte_size, move) / copied

    def launch() -> None:
        driver.launch(one, 1, 32, 0, (first, second), stream)

    def launch_and_wait() -> None:
        launch()
        driver.synchronise(stream)

    def allocate_and_free() -> None:
        driver.free(driver.allocate(1 << 20, stream), stream)

    def upload() -> float:
        begun = time.perf_counter()
        driver.upload(third, host, other)
        driver.synchronise(other)
        return time.perf_counter() - begun

    def upload_beside() -> float:
        """Return the rate of an upload while another stream copies, as a share of it alone."""
        alone = min(upload() for _ in range(REPETITIONS))
        for _ in range(math.ceil(4 * alone * copied * 1e9 / (2 * byte_size))):
            driver.copy(second, first, byte_size, stream)
        beside = upload()
        driver.synchronise(stream)
        return alone / beside

    def change_and_launch() -> None:
        for node in nodes:
            driver.change_node(graph, node, one, 1, 32, 0, (first, third))
        launch_graph()

    def launch_graph() -> None:
        driver.launch_graph(graph, stream)

    def in_graph(work: Callable[[], None]) -> float:
        driver.begin_capture(stream)
        for _ in range(GRAPH_CALLS):
            work()
        graph = driver.end_capture(stream)
        return 1e6 * seconds(lambda: driver.launch_graph(graph, stream)) / GRAPH_CALLS

    def multiply() -> None:
        driver.launch(product, small.blocks, small.threads, 0, (first, second, third), stream)

    def rate(moved: int, work: Callable[[], None]) -> float:
        return moved / seconds(work) / 1e9

    graph, nodes = _graph(driver, launch, stream)
    copied = rate(2 * byte_size, lambda: driver.copy(second, first, byte_size, stream))
    return {
        "copy GB/s": copied,
        **{
            f"{name}, of a copy": share(kernel, code)
            for name, kernel, code in zip(PROGRAMS, kernels, loaded, strict=True)
        },
        "upload GB/s": rate(staged, lambda: driver.upload(first, host, stream)),
        "download GB/s": rate(staged, lambda: driver.download(host, first, stream)),
        "upload of pageable GB/s": rate(staged, lambda: driver.upload(first, pageable, stream)),
        "upload beside copies, of alone": upload_beside(),
        "launch us": 1e6 * seconds(launch, 1000),
        "launch and wait us": 1e6 * seconds(launch_and_wait, 1000),
        f"graph of {_NODES} launches us": 1e6 * seconds(launch_graph, 1000),
        "the same with new addresses us": 1e6 * seconds(change_and_launch, 1000),
        "small product in a graph us": in_graph(multiply),
        "the same by the library us": in_graph(
            lambda: driver.call(library, (first, second, third, room), stream)
        ),
        "allocate and free us": 1e6 * seconds(allocate_and_free, 1000),
    }
