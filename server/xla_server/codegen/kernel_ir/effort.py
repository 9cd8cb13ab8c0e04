"""Optimisation effort of LLVM for a kernel."""

import enum


class Effort(enum.Enum):
    """Optimisation, by the level of LLVM's code generator.

    UNOPTIMISED (O0) code only calls routines, which take far longer than it, and compiles in a
    third of the time. PLAIN code has registers and is simplified, but not vectorised. WRITTEN code
    is final LLVM IR: only instructions and registers are selected for it.
    """

    UNOPTIMISED = 0
    PLAIN = 1
    WRITTEN = 2
    OPTIMISED = 3
