"""Rows of a program on a device of the twin, each value in memory of its own for the whole run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.cuda_twin.device.driver import TwinDriver
from tests.cuda_twin.device.toolchain import HostToolchain
from tests.cuda_twin.device.twin import DEVICE
from xla_server.backends.cuda.worker.device.driver import DeviceCopy, KernelLaunch, PreparedCall
from xla_server.buffers.code import Code, CopyThunk, KernelThunk, Value, writes
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan


def plans(code: Code) -> list[LibraryPlan]:
    """Return what libraries compute of a program, in the order of the rows."""
    kernels = (thunk.kernel for thunk in code.thunks if isinstance(thunk, KernelThunk))
    return [kernel for kernel in kernels if isinstance(kernel, LibraryPlan)]


def results_of(code: Code, arguments: Sequence[Any]) -> list[Any]:
    """Return the results of rows that are kernels of a GPU, plans of libraries and copies."""
    driver = TwinDriver()
    stream = driver.new_stream()
    given = dict(zip(code.parameters, arguments, strict=True)) | code.constants
    values = dict.fromkeys([*given, *(value for thunk in code.thunks for value in writes(thunk))])
    places = {value: driver.allocate(value.byte_size, stream) for value in values}
    for value, array in given.items():
        driver.upload(places[value], _bytes(np.array(array)), stream)
    for thunk in code.thunks:
        match thunk:
            case CopyThunk():
                copy = DeviceCopy(
                    places[thunk.target], places[thunk.source], thunk.source.byte_size
                )
                driver.enqueue(copy, stream)
            case KernelThunk(kernel=LibraryPlan() as plan):
                addresses = [places[value] for value in thunk.arguments]
                driver.enqueue(PreparedCall(driver.prepare(plan), addresses), stream)
            case KernelThunk(kernel=GridKernel() as grid):
                addresses = [places[value] for value in thunk.arguments]
                module = HostToolchain(DEVICE).compile({"k": grid})
                (kernel,) = driver.load(module.code, ["k"])
                launch = KernelLaunch(kernel, grid.blocks, grid.threads, 0, addresses)
                driver.enqueue(launch, stream)
            case _:
                raise AssertionError(f"a thunk of the device was expected, got {thunk}")
    return [_downloaded(driver, places[value], value, stream) for value in code.results]


def _bytes(array: Any) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _downloaded(driver: TwinDriver, address: int, value: Value, stream: int) -> Any:
    found = np.empty(value.shape.dimensions, value.shape.element_type.dtype)
    driver.download(found.reshape(-1).view(np.uint8).data, address, stream)
    driver.synchronise(stream)
    return found
