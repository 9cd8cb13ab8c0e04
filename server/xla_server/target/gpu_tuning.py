"""Numbers that compilation for GPUs is tuned by, where they are others than those of processors."""

import dataclasses
import functools

from xla_server.target.fusion_tuning import EvaluationCosts, Fusions
from xla_server.target.kernel_tuning import SmallLoops
from xla_server.target.machine import Machine
from xla_server.target.pass_tuning import ControlFlow, Reductions
from xla_server.target.tuning import Tuning, tuning_of

_REDUCTIONS = Reductions(min_elements=1 << 14, joins_in_f64=False)
"""Many GPUs add f64 at a small part of the rate of f32; partial sums are added pairwise."""

_CONTROL_FLOW = ControlFlow(
    # The host reads each predicate back, which takes as long as several launches.
    max_branch_elements=1 << 14,
    max_unrolled_iterations=8,
    # ThreeFry as JAX writes it, five turns, is one kernel without the loop, some 50 rows with it.
    max_unrolled_instructions=1024,
)

_SMALL_LOOPS = SmallLoops(max_work=512, max_array_work=512, max_counted_work=1 << 14)
"""One thread does an iteration, which as rows takes as long as several launches; it does 512
operations with loads in that time. Some ten thousand take as long as some looks at the flag."""


_FUSIONS = Fusions(min_rows=1)
"""Rows that are too few for all threads are cut before."""


_EVALUATION_COSTS = EvaluationCosts(launch=1024)
"""A launch takes as long as a thread takes for a thousand additions, each of which needs the one
before: some microseconds."""


@functools.cache
def gpu_tuning_of(machine: Machine) -> Tuning:
    """Return the tuning for a GPU."""
    return dataclasses.replace(
        tuning_of(machine),
        reductions=_REDUCTIONS,
        control_flow=_CONTROL_FLOW,
        small_loops=_SMALL_LOOPS,
        fusions=_FUSIONS,
        evaluation_costs=_EVALUATION_COSTS,
    )
