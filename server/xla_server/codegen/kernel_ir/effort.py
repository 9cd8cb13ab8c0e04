"""Optimisation effort of LLVM for a kernel."""

import enum


class Effort(enum.Enum):
    """Optimisation, by the level of LLVM's code generator.

    UNOPTIMISED (O0) code calls routines that take far longer, and is compiled in a third of the
    time. PLAIN code has registers and is simplified, without vectors. WRITTEN code is LLVM as it is
    to be executed: only instructions and registers are chosen for it.
    """

    UNOPTIMISED = 0
    PLAIN = 1
    WRITTEN = 2
    OPTIMISED = 3
