"""Routines that kernels call before and after they add rows to a block of neighbouring sums.

Every reduction by columns has these loops, which differ only in addresses and counts. They are a
small part of its running time, but were a fourth of its compile time. They join parts of the sums
of a product, too.
"""

from xla_server.codegen.compiler.shared_functions import PythonFunction, by_name
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.intrinsics import add
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Count, Number, Update, Write, routine_of

FILLED = {4: "i32", 8: "i64"}
"""Integers that `fill` writes, by their bytes."""

JOINED = {
    "f32": CONSTANTS["f32"](1 << 31),
    "f64": CONSTANTS["f64"](1 << 63),
    "i32": CONSTANTS["i32"](0),
    "u32": CONSTANTS["u32"](0),
}
"""Initial values of sums: of floats -0, as x + -0 is x for every x."""


def _fill(byte_width: int) -> PythonFunction:
    """Return the routine that writes one value to consecutive elements."""
    kind = FILLED[byte_width]
    store, narrow = MEMORY[f"store_{kind}"], MEMORY[f"to_{kind}"]

    def fill(address: Write, count: Count, bits: Number) -> None:
        for number in range(count):
            store(address, number, narrow(bits))

    routine = routine_of(f"fill_{8 * byte_width}", fill, lambda n: n["count"])
    return PythonFunction(routine, fill, Effort.OPTIMISED)


def _join(kind: str) -> PythonFunction:
    """Return the routine that adds a block of sums to those of the outer level, and resets it.

    The two do not overlap.
    """
    neutral = JOINED[kind]
    load, store = MEMORY[f"reload_{kind}"], MEMORY[f"store_{kind}"]
    kept, keep = MEMORY[f"kept_{kind}"], MEMORY[f"keep_{kind}"]

    def join(outside: Update, inside: Update, count: Count) -> None:
        for number in range(count):
            store(outside, number, add(load(outside, number), kept(inside, number)))
            keep(inside, number, neutral)

    routine = routine_of(f"join_{kind}", join, lambda n: 5 * n["count"])
    return PythonFunction(routine, join, Effort.OPTIMISED)


COLUMN_SUMS = by_name((*map(_fill, FILLED), *map(_join, JOINED)))
"""Every function of this module by its name in kernels: `fill` by bits, and `join` by type."""
