"""Operations that the host computes for a GPU, lowered to kernels of the host.

Their operands are copied to the host and their results back. A thunk's code decides where it runs:
a `GridKernel` or a library's plan on the device, any other kernel on the host.
"""

import dataclasses
import functools
from collections.abc import Generator

from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.ir.module import HloInstruction
from xla_server.target.machine import Machine
from xla_server.target.target import Target


@functools.cache
def host() -> Target:
    """Return the target of kernels that the host executes."""
    return Target.of(Machine.host())


@dataclasses.dataclass(frozen=True, slots=True)
class ThroughHost:
    """The lowering of an operation for a processor, with the host as its target."""

    lower: Lower

    def __call__(self, lowering: Lowering, i: HloInstruction) -> Tree:
        """Add the thunks of an instruction for the host."""
        device, lowering.target = lowering.target, host()
        try:
            tree = self.lower(lowering, i)
        finally:
            lowering.target = device
        assert not isinstance(tree, Generator), "computations that run row by row are no kernels"
        return tree
