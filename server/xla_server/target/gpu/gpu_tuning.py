"""Tuning parameters of compilation for GPUs that differ from those of processors."""

import dataclasses
import functools

from xla_server.target.fusion_tuning import EvaluationCosts, Fusions
from xla_server.target.kernel_tuning import SmallLoops
from xla_server.target.machine import Machine
from xla_server.target.pass_tuning import ControlFlow, Reductions
from xla_server.target.tuning import Tuning, tuning_of

_REDUCTIONS = Reductions(min_elements=1 << 14, joins_in_f64=False)
"""Many GPUs add f64 at a small fraction of the rate of f32: partial sums are added pairwise."""

_CONTROL_FLOW = ControlFlow(
    # The host reads each predicate from the device, which takes as long as several launches.
    max_branch_elements=1 << 14,
    max_unrolled_iterations=8,
    # ThreeFry in JAX's form, a loop of five iterations, is one kernel unrolled, else some 50
    # thunks.
    max_unrolled_instructions=1024,
)

_SMALL_LOOPS = SmallLoops(
    max_elements=8, max_work=512, max_array_work=512, max_counted_work=1 << 14
)
"""An iteration runs in one thread, which does 512 operations with loads in the time of the launches
that it replaces. Some ten thousand operations take as long as a few polls of the cancellation
flag."""


_FUSIONS = Fusions(min_rows=1)
"""A pass has already split rows that are too few for all threads."""


_EVALUATION_COSTS = EvaluationCosts(launch=1024)
"""A launch takes some microseconds, as long as a thousand dependent additions of a thread."""


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
