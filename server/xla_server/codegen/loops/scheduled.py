"""The kernel that a schedule makes of a scalar graph, with its counts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xla_server.codegen.kernel_ir import counts
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.loops.chunks import calls_of
from xla_server.codegen.trace.graph import Node, Reduction
from xla_server.target.loop_tuning import Chunks

Evaluations: TypeAlias = Mapping["Node | Reduction", float]
"""Evaluations of each node, and of the element of each reduction, in one launch of a kernel."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduledKernel:
    """A kernel whose work items have about `work` operations each.

    Each call does about `prologue` operations before its first work item. `evaluations` says how
    often a launch, cut into chunks by `chunk_of`, evaluates each node.
    """

    kernel: Kernel
    work: int
    prologue: int
    evaluations: Evaluations


def scheduled(
    kernel: Kernel, work: int, prologue: int, origins: Sequence[Node | Reduction], chunks: Chunks
) -> ScheduledKernel:
    """Return a kernel with its counts; statements name `origins` by their numbers."""
    calls = calls_of(kernel.items, work, prologue, chunks)
    evaluations: dict[Node | Reduction, float] = {}
    for number, times in counts.evaluations(kernel, calls).items():
        origin = origins[number]
        elements = origin.turns if isinstance(origin, Reduction) else 1
        evaluations[origin] = evaluations.get(origin, 0.0) + times * elements
    return ScheduledKernel(kernel, work, prologue, evaluations)
