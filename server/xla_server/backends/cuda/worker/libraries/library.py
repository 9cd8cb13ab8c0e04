"""The libraries of one device, and their memory and handles.

A thread has made the device current before it calls a library.
"""

import contextlib
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
        GemmPlan: ("cublaslt", "PreparedProduct"),
        ConvolutionPlan: ("cudnn", "PreparedConvolution"),
        TriangularSolvePlan: ("cublas", "PreparedTriangularSolve"),
        CholeskyPlan: ("cusolver", "PreparedCholesky"),
        FftPlan: ("cufft", "PreparedTransform"),
        SolverPlan: ("cusolver_lapack", "prepared"),
    }
)
"""The module of each kind of plan, and what makes prepared plans there."""


class Libraries:
    """Selects the library of each plan, and loads it at its first plan. Thread-safe."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._handles: dict[tuple[Callable[[int], Any], int], Any] = {}
        self._lock = threading.Lock()

    def prepare(self, plan: LibraryPlan) -> Any:
        """Return the prepared form of a plan. Raises LibraryError, with the plan.

        Any thread may call its `call`, with the addresses of buffers and a stream.
        """
        if plan.problem is not None:
            raise LibraryError(f"{plan.text}: {plan.problem}")
        module, name = next(found for kind, found in _LIBRARIES.items() if isinstance(plan, kind))
        return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)(self, plan)

    def handle(self, create: Callable[[int], Any], stream: int = 0) -> Any:
        """Return what `create` returns for a stream, created once.

        A handle whose device memory serves one call at a time is created for each stream. There are
        as many streams as connections of the worker.
        """
        with self._lock:
            if (create, stream) not in self._handles:
                self._handles[create, stream] = create(stream)
            return self._handles[create, stream]


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
