"""Bounds on the work of a compiled program beyond evaluating each instruction of its module
once.
"""

from collections.abc import Iterator

from tests.processors import TARGET
from xla_server.backends.compiled.compilation import Compilation, costs_of
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.fusion.recomputation_guard import RecomputationGuard
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.target.gpu.properties import COUNTED_LANES
from xla_server.target.target import Target

OPERATIONS = 1.25
"""Operations for each requested one, unless the accesses to memory saved pay for more."""

TRANSCENDENTALS = 1.1
"""The same of transcendental functions."""

PAID_OPERATIONS = 6.0
PAID_TRANSCENDENTALS = 2.0
"""The same, whatever the cost model says."""


def complaints(compilation: Compilation, target: Target = TARGET) -> Iterator[str]:
    """Yield each bound that the work of a program exceeds.

    Recomputation pays where fusion's cost model would store nothing more. Values that take less
    time than a launch are left alone in each kernel: a GPU does that in many lanes at a time.
    """
    lanes = 1 if target.machine.gpu is None else COUNTED_LANES
    launches = len(kernels_of(compilation.code))
    small = target.tuning.evaluation_costs.launch * launches * lanes
    found = list(_exceeded(compilation, OPERATIONS, TRANSCENDENTALS, small))
    if found and not RecomputationGuard(costs_of(target)).apply(compilation.module):
        found = list(_exceeded(compilation, PAID_OPERATIONS, PAID_TRANSCENDENTALS, small))
    yield from found


def _exceeded(
    compilation: Compilation, operations: float, transcendentals: float, small: float
) -> Iterator[str]:
    once, done = compilation.work.once.cost, compilation.work.done.cost
    limits = (
        (
            "transcendental functions",
            done.transcendentals,
            once.transcendentals,
            transcendentals,
            small / CostClass.TRANSCENDENTAL,
        ),
        ("operations", done.flops, once.flops, operations, small),
    )
    for what, found, asked, ratio, slack in limits:
        if found > ratio * asked + slack:
            yield f"at most {ratio} {what} for each of {asked:.0f} asked for, got {found:.0f}"
