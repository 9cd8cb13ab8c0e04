"""The kernel that a schedule makes of a scalar graph, with its counts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xla_server.codegen.kernel_ir.analysis import counts
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.schedules.builders.launches.chunks import calls_of
from xla_server.codegen.trace.graph import Node, Reduction
from xla_server.target.loop_tuning import Chunks

Evaluations: TypeAlias = Mapping["Node | Reduction", float]
"""Evaluations of each node, and of the element of each reduction, in one launch of a kernel."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduledKernel:
    """A kernel, and the number of `evaluations` of each node in a launch cut into chunks."""

    kernel: Kernel
    evaluations: Evaluations


def scheduled(
    kernel: Kernel, origins: Sequence[Node | Reduction], chunks: Chunks
) -> ScheduledKernel:
    """Return a kernel with its counts; statements name `origins` by their numbers."""
    calls = calls_of(kernel.items, *kernel.work.times, chunks)
    return ScheduledKernel(kernel, evaluations_of(counts.evaluations(kernel.body, calls), origins))


def evaluations_of(
    counted: Mapping[int, float], origins: Sequence[Node | Reduction]
) -> Evaluations:
    """Return counts by the nodes that statements name by their numbers."""
    evaluations: dict[Node | Reduction, float] = {}
    for number, times in counted.items():
        origin = origins[number]
        elements = origin.iterations if isinstance(origin, Reduction) else 1
        evaluations[origin] = evaluations.get(origin, 0.0) + times * elements
    return evaluations
