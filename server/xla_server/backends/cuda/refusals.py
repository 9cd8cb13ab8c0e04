"""Plans that the libraries of a platform's devices refused, and a target that avoids them."""

import dataclasses
import threading
from collections.abc import Iterator, Mapping

from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.target.gpu.convolution import Convolution
from xla_server.target.gpu.gpu_capability import GpuCapability
from xla_server.target.target import Target

MAX_REFUSED_PLANS = 64
"""Bound of refused plans, above which the library is not used at all: each adds one more target."""


class RefusedPlans:
    """Convolutions that a device's library refused, so that kernels compute them. Thread-safe."""

    def __init__(self, target: Target, *, has_convolutions: bool) -> None:
        capability = GpuCapability(has_convolutions=has_convolutions)
        self._lock = threading.Lock()
        self._reasons: dict[Convolution, str] = {}
        self.target = dataclasses.replace(target, capability=capability)
        """The target that programs are compiled for."""

    def add(self, reasons: Mapping[LibraryPlan, str]) -> None:
        """Add refused plans to the target; if there are too many, disable library convolutions."""
        with self._lock:
            for plan, reason in reasons.items():
                assert isinstance(plan, ConvolutionPlan), plan
                self._reasons[plan.convolution] = reason
            refused = frozenset(self._reasons)
            is_used = len(refused) <= MAX_REFUSED_PLANS
            capability = GpuCapability(
                has_convolutions=is_used, refused=refused if is_used else frozenset()
            )
            self.target = dataclasses.replace(self.target, capability=capability)

    def lines(self) -> Iterator[str]:
        """Yield lines for dumps about plans that are no longer compiled to library calls."""
        with self._lock:
            reasons = list(self._reasons.values())
        if reasons:
            yield ""
            yield f"refused by libraries, so computed by kernels, in all programs: {len(reasons)}"
            yield from reasons[:MAX_REFUSED_PLANS]
