"""What a compiled program may do beyond evaluating each instruction of its module once."""

from collections.abc import Iterator

from xla_server.backends.compilation import Compilation
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.lower.recomputation import LAUNCH_UNITS, TRANSCENDENTAL_UNITS

OPERATIONS = 1.25
"""Operations for each that is asked for, unless the accesses to memory saved pay for more."""

TRANSCENDENTALS = 1.1
"""The same of transcendental functions."""

PAID_OPERATIONS = 6.0
PAID_TRANSCENDENTALS = 2.0
"""The same, whatever the cost model says."""


def complaints(compilation: Compilation) -> Iterator[str]:
    """Yield each bound that the work of a program exceeds.

    Recomputation pays if its plan is settled: by the cost model, storing any instruction takes more
    time than to evaluate it again. What takes less time than a launch is left alone in each kernel.
    """
    once, done = compilation.work.once.cost, compilation.work.done.cost
    small = LAUNCH_UNITS * len(kernels_of(compilation.code))
    small_functions = small / TRANSCENDENTAL_UNITS
    pays = not compilation.code.unsettled
    limits = (
        ("transcendental functions", done.transcendentals, once.transcendentals, small_functions),
        ("operations", done.flops, once.flops, small),
    )
    ratios = (TRANSCENDENTALS, OPERATIONS)
    if pays:
        ratios = (PAID_TRANSCENDENTALS, PAID_OPERATIONS)
    for (what, found, asked, slack), ratio in zip(limits, ratios, strict=True):
        if found > ratio * asked + slack:
            yield f"at most {ratio} {what} for each of {asked:.0f} asked for, got {found:.0f}"
