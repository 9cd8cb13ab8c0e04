"""Compiled platforms by the names that tests choose them by."""

import atexit
import functools

from xla_server.backends.compiled.backend import CompiledBackend


@functools.cache
def compiled_platform(name: str) -> CompiledBackend:
    """Return the platform that the tests of a process share: `cpu`, `cuda`, or `cuda-twin`.

    Raises ValueError for another name.
    """
    if name == "cpu":
        from tests.unit.codegen.compiled import CPU

        return CPU
    if name == "cuda-twin":
        from tests.cuda_twin.platform import shared_platform

        return shared_platform()
    if name == "cuda":
        from xla_server.backends.cuda.backend import Cuda

        platform = Cuda(1)
        atexit.register(platform.close)
        return platform
    raise ValueError(f"a platform that compiles must be cpu, cuda or cuda-twin, got {name}")
