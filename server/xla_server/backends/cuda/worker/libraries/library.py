"""The libraries of one device, and their memory and handles.

A thread has made the device current before it calls a library.
"""

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import (
    CholeskyPlan,
    FftPlan,
    GemmPlan,
    LibraryPlan,
    TriangularSolvePlan,
)
from xla_server.codegen.gpu.plans.solver_plans import SolverPlan


class LibraryError(Exception):
    """A library refused a plan; the message has the plan and the library's error."""


class Memory(Protocol):
    """The stream-ordered allocator of the device that libraries use."""

    def allocate(self, byte_size: int, stream: int) -> int:
        """Return memory for later work of the stream. Raises OutOfDeviceMemoryError."""

    def free(self, address: int, stream: int) -> None:
        """Free memory once the earlier work of the stream is done."""


_PACKAGE = __name__.rpartition(".")[0]

_LIBRARIES: Mapping[type[Any], tuple[str, str]] = MappingProxyType(
    {
        GemmPlan: ("cublaslt", "CublasLt"),
        ConvolutionPlan: ("cudnn", "Cudnn"),
        TriangularSolvePlan: ("cublas", "Cublas"),
        CholeskyPlan: ("cusolver", "Cusolver"),
        FftPlan: ("cufft", "Cufft"),
        SolverPlan: ("cusolver_lapack", "CusolverLapack"),
    }
)
"""The module and class that computes each kind of plan."""


class Libraries:
    """Selects the library of each plan, and loads it at its first plan. Thread-safe."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def prepare(self, plan: LibraryPlan) -> Any:
        """Return the prepared form of a plan. Raises LibraryError, with the plan.

        Any thread may call its `call`, with the addresses of buffers and a stream.
        """
        if plan.problem is not None:
            raise LibraryError(f"{plan.text}: {plan.problem}")
        module, name = next(place for kind, place in _LIBRARIES.items() if isinstance(plan, kind))
        return self._library(module, name).prepare(plan)

    @functools.lru_cache  # noqa: B019
    def _library(self, module: str, name: str) -> Any:
        return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)(self._memory)


@contextlib.contextmanager
def borrowed(memory: Memory, byte_size: int, stream: int) -> Iterator[int]:
    """Hold memory for work that is enqueued during the block; yield its address, 0 for no bytes."""
    if not byte_size:
        yield 0
        return
    address = memory.allocate(byte_size, stream)
    try:
        yield address
    finally:
        memory.free(address, stream)


class Handles:
    """A library's handle for each stream, as a handle's device memory serves one at a time.

    There are as many streams as connections of the worker.
    """

    def __init__(self, create: Callable[[int], Any]) -> None:
        self._create, self._lock = create, threading.Lock()
        self._of_streams: dict[int, Any] = {}

    def of(self, stream: int) -> Any:
        """Return the handle of a stream."""
        with self._lock:
            if stream not in self._of_streams:
                self._of_streams[stream] = self._create(stream)
            return self._of_streams[stream]
