"""The instructions that kernels for a GPU are written in, by their names in kernels.

They are those of processors but for what a GPU has in another way: memory has address spaces, the
remainder of floats no library, shifts have amounts of 32 bits, and F16 is converted by integer
arithmetic, whose bits are known.
"""

import functools
from collections.abc import Mapping
from typing import Any

from xla_server.codegen.functions.bits.half_floats import half_floats
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.gpu.emit.remainder import DIVISION
from xla_server.codegen.instructions.intrinsics import ARITHMETIC, MASKED_SHIFTS
from xla_server.codegen.instructions.memory import TYPE_CHANGES, accesses, shared_accesses
from xla_server.codegen.instructions.random_words import RANDOM_WORDS
from xla_server.target.machine import Machine

GLOBAL = 1
"""The address space of buffers."""

SHARED = 3
"""The address space of shared arrays."""

INTRINSICS = frozenset(
    f"llvm.{name}"
    for name in (
        *("ceil", "copysign", "ctlz", "ctpop", "fabs", "floor", "fma", "maximum", "minimum"),
        *("nearbyint", "round", "sqrt", "trunc"),
        *("nvvm.read.ptx.sreg.ctaid.x", "nvvm.read.ptx.sreg.tid.x", "nvvm.shfl.sync.bfly"),
        "nvvm.barrier.cta.sync.aligned.all",
    )
)
"""Intrinsics that the back end has exact code for. It ends the process at others, such as exp, and
makes an approximation of exp2."""


@functools.cache
def instructions(machine: Machine) -> Mapping[str, Any]:
    """Return the instructions of a GPU by their names in kernels."""
    return {
        # Sums have one order, so that any compiler of a kernel gives their bits.
        **{name: each for name, each in ARITHMETIC.items() if not name.endswith("_in_any_order")},
        **accesses(GLOBAL),
        **shared_accesses(SHARED),
        **TYPE_CHANGES,
        **FUNCTIONS,
        **half_floats(machine),
        **RANDOM_WORDS,
        **DIVISION,
        **MASKED_SHIFTS,
    }
