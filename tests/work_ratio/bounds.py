"""Bounds on the work of a compiled program beyond evaluating each instruction of its module
once.
"""

from collections.abc import Iterator

from tests.processors import TARGET
from xla_server.backends.compiled.compilation import Compilation
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.lower.recomputation import (
    TRANSCENDENTAL_UNITS,
    LoopNestCosts,
)
from xla_server.fusion.recomputation_guard import RecomputationGuard

TUNING = TARGET.tuning

OPERATIONS = 1.25
"""Operations for each that is asked for, unless the accesses to memory saved pay for more."""

TRANSCENDENTALS = 1.1
"""The same of transcendental functions."""

PAID_OPERATIONS = 6.0
PAID_TRANSCENDENTALS = 2.0
"""The same, whatever the cost model says."""


def complaints(compilation: Compilation) -> Iterator[str]:
    """Yield each bound that the work of a program exceeds.

    Recomputation pays where fusion's cost model would store nothing more. Values that take less
    time than a launch are left alone in each kernel.
    """
    found = list(_exceeded(compilation, OPERATIONS, TRANSCENDENTALS))
    if found and not RecomputationGuard(LoopNestCosts(TARGET)).apply(compilation.module):
        found = list(_exceeded(compilation, PAID_OPERATIONS, PAID_TRANSCENDENTALS))
    yield from found


def _exceeded(compilation: Compilation, operations: float, transcendentals: float) -> Iterator[str]:
    once, done = compilation.work.once.cost, compilation.work.done.cost
    small = TUNING.evaluation_costs.launch * len(kernels_of(compilation.code))
    limits = (
        (
            "transcendental functions",
            done.transcendentals,
            once.transcendentals,
            transcendentals,
            small / TRANSCENDENTAL_UNITS,
        ),
        ("operations", done.flops, once.flops, operations, small),
    )
    for what, found, asked, ratio, slack in limits:
        if found > ratio * asked + slack:
            yield f"at most {ratio} {what} for each of {asked:.0f} asked for, got {found:.0f}"
