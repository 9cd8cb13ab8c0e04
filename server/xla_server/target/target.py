"""The target of a compilation: a machine, its tuning, and the capability of its kernels."""

import dataclasses
import functools

from xla_server.target.capability import Capability
from xla_server.target.gpu.gpu_capability import GpuCapability
from xla_server.target.gpu.gpu_tuning import gpu_tuning_of
from xla_server.target.machine import Machine
from xla_server.target.tuning import Tuning, tuning_of

PROCESSOR = Capability()
"""The capability of kernels for processors."""

GPU = GpuCapability()
"""The capability of kernels for GPUs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The target of a compilation. Passes, fusion and lowering of one program share it."""

    machine: Machine
    tuning: Tuning
    capability: Capability = PROCESSOR

    @classmethod
    @functools.cache
    def of(cls, machine: Machine) -> "Target":
        """Return the target for a processor or a GPU."""
        if machine.gpu is not None:
            return cls(machine, gpu_tuning_of(machine), GPU)
        return cls(machine, tuning_of(machine))
