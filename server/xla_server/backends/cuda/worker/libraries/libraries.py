"""The libraries of one device."""

import functools
import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xla_server.backends.cuda.worker.libraries.library import LibraryError, Memory, Prepared
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import (
    CholeskyPlan,
    FftPlan,
    GemmPlan,
    LibraryPlan,
    TriangularSolvePlan,
)
from xla_server.codegen.gpu.plans.solver_plans import SolverPlan

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
    """Gives each plan to its library, which is loaded at its first plan. For any thread."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def prepare(self, plan: LibraryPlan) -> Prepared:
        """Return what computes a plan. Raises LibraryError, with the plan."""
        if plan.problem is not None:
            raise LibraryError(f"{plan.text}: {plan.problem}")
        module, name = next(place for kind, place in _LIBRARIES.items() if isinstance(plan, kind))
        prepared: Prepared = self._library(module, name).prepare(plan)
        return prepared

    def call(self, prepared: Prepared, addresses: Sequence[int], stream: int) -> None:
        """Let a stream compute a plan on its buffers."""
        prepared.call(addresses, stream)

    @functools.lru_cache  # noqa: B019
    def _library(self, module: str, name: str) -> Any:
        return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)(self._memory)
