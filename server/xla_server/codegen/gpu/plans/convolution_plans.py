"""Plans of convolutions."""

import dataclasses

from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.target.gpu.convolution import Convolution

_MAX_WORKSPACE_BYTES = 256 << 20
"""Upper limit of a convolution's workspace, in bytes, for any size of arrays."""

_LEAST_WORKSPACE_BYTES = 1 << 20
"""Bytes that engines need for any sizes, with a margin."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionPlan(LibraryPlan):
    """A convolution or one of its gradients.

    Buffers: the two arrays that are read, the image before the filter before y, then the result,
    then `memory_bytes` to write to, of which a part from an aligned address on is the workspace.
    """

    convolution: Convolution

    @property
    def text(self) -> str:
        """The convolution, and its fallback if the library does not compute it."""
        return f"convolution {self.convolution}; im2col or a loop nest where the library has none"

    @property
    def operations(self) -> int:
        """Two for each product."""
        return self.convolution.operations

    @property
    def is_replaceable(self) -> bool:
        """True: other convolutions are products or loop nests."""
        return True

    @property
    def workspace_bytes(self) -> int:
        """Bytes for two copies of each array in f32.

        Engines bring arrays into another order before they begin, or keep partial sums. The first
        choice of release 9.28 for an H100 fits in 233 of 234 plans (LOG, engines of cuDNN).
        """
        width = max(4, self.convolution.element.byte_width)
        copies = 2 * width * self.convolution.bytes // self.convolution.element.byte_width
        return min(_MAX_WORKSPACE_BYTES, copies + _LEAST_WORKSPACE_BYTES)

    @property
    def problem(self) -> str | None:
        """The reason why cuDNN does not compute it; None if it may."""
        return self.convolution.problem
