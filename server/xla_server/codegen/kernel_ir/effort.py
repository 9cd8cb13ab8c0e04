"""How much LLVM does for a kernel."""

import enum


class Effort(enum.Enum):
    """Optimisation, by the level of LLVM's code generator.

    GLUE calls others that take far longer, and is compiled in a third of the time. PLAIN has loops
    that take some of the time: it is brought into registers and simplified, not into vectors.
    WRITTEN stands as it is to be done: only instructions and registers are chosen for it.
    """

    GLUE = 0
    PLAIN = 1
    WRITTEN = 2
    OPTIMISED = 3
