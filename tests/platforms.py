"""Compiled platforms by the names that tests choose them by."""

import atexit
import functools
import importlib

from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.backends.cuda.toolchain import PtxToolchain, Toolchain, find_assembler
from xla_server.backends.cuda.worker.device.driver import Driver
from xla_server.target.machine import Machine


@functools.cache
def compiled_platform(name: str) -> CompiledBackend:
    """Return the platform that the tests of a process share: `cpu`, `cuda`, or `cuda-twin`.

    Raises ValueError for another name.
    """
    if name == "cpu":
        from tests.unit.codegen.compiled import CPU

        return CPU
    if name == "cuda-twin":
        from tests.cuda_twin.device.platform import shared_platform

        return shared_platform()
    if name == "cuda":
        from xla_server.backends.cuda.backend import Cuda

        platform = Cuda(1)
        atexit.register(platform.close)
        return platform
    raise ValueError(f"a platform that compiles must be cpu, cuda or cuda-twin, got {name}")


def driver_of(name: str) -> tuple[Driver, Toolchain]:
    """Return a driver of `cuda` or `cuda-twin` in this process, and what compiles for it."""
    if name == "cuda-twin":
        from tests.cuda_twin.device.driver import TwinDriver
        from tests.cuda_twin.device.toolchain import HostToolchain

        twin = TwinDriver()
        return twin, HostToolchain(Machine.cuda(twin.description.capability))
    # Its packages are there with a GPU alone.
    module = importlib.import_module("xla_server.backends.cuda.worker.device.cuda_driver")
    driver: Driver = module.CudaDriver(0)
    described = driver.description
    assembler = find_assembler([described.architecture])
    return driver, PtxToolchain(Machine.cuda(described.capability), assembler=assembler)
