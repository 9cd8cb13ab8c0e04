"""The cost model that fusion asks: an interface, because what it counts is the loop nests above."""

from typing import Protocol

from xla_server.ir.module import HloInstruction


class CostModel(Protocol):
    """Counts the evaluations of a fusion's loop nest for the sizes that the module has."""

    def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
        """Return what is cheaper to store by kernels before a loop fusion than to evaluate in it.

        The instructions are those inside of the fusion; none of them if it is best as it is.
        """
