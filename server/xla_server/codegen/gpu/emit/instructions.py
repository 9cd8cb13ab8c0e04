"""The instructions of kernels for a GPU, by their names in kernels.

They are those of processors except for differences of a GPU: memory has address spaces, the
remainder of floats has no library function, shift amounts have 32 bits, and F16 is converted by
integer arithmetic, whose bits are known.
"""

import functools
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from xla_server.codegen.functions.bits.bitwise import MASKED_SHIFTS
from xla_server.codegen.functions.bits.half_floats import half_floats
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.gpu.emit.remainder import DIVISION
from xla_server.codegen.instructions.intrinsics import ARITHMETIC
from xla_server.codegen.instructions.memory import TYPE_CHANGES, accesses, shared_accesses
from xla_server.codegen.instructions.random_words import RANDOM_WORDS
from xla_server.target.machine import Machine

GLOBAL = 1
"""The address space of buffers."""

SHARED = 3
"""The address space of shared arrays."""

_OVERLOADED = {
    ("ceil", "copysign", "fabs", "floor", "fma", "maximum", "minimum"): ("f32", "f64"),
    ("nearbyint", "round", "sqrt", "trunc"): ("f32", "f64"),
    ("ctlz", "ctpop"): ("i8", "i16", "i32", "i64"),
}
_OF_THREADS = (
    *("read.ptx.sreg.ctaid.x", "read.ptx.sreg.tid.x", "shfl.sync.bfly.i32"),
    "barrier.cta.sync.aligned.all",
)
INTRINSICS = frozenset(
    (
        *(f"llvm.{n}.{k}" for names, kinds in _OVERLOADED.items() for n in names for k in kinds),
        *(f"llvm.nvvm.{name}" for name in _OF_THREADS),
    )
)
"""Intrinsics with exact code in the back end. It ends the process at others, such as exp, and
approximates exp2."""


def check_instructions(module: ir.Module) -> None:
    """Raise ValueError for a module with instructions that LLVM has no exact GPU code for."""
    for function in module.functions:
        # LLVM reserves the prefix for intrinsics: other declarations are functions of the module.
        if function.name.startswith("llvm.") and function.name not in INTRINSICS:
            raise ValueError(f"an intrinsic of a GPU must be one of its list, got {function.name}")
        for block in function.blocks:
            if any(each.opname == "frem" for each in block.instructions):
                raise ValueError("a remainder of floats must be computed by a function, got frem")


@functools.cache
def instructions(machine: Machine) -> Mapping[str, Any]:
    """Return the instructions of a GPU by their names in kernels."""
    return {
        # Sums are not REASSOCIATED, so that any compiler gives the same bits.
        **ARITHMETIC,
        **accesses(GLOBAL),
        **shared_accesses(SHARED),
        **TYPE_CHANGES,
        **FUNCTIONS,
        **half_floats(machine),
        **RANDOM_WORDS,
        **DIVISION,
        **MASKED_SHIFTS,
    }
