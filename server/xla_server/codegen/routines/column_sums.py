"""Routines that kernels call before and after they add rows to a run of neighbouring sums.

Every reduction by columns has these loops, the same in each but for addresses and counts. They are
a small part of its time, but were a fourth of its compilation.
"""

from collections.abc import Callable
from typing import Any

from xla_server.codegen.compiler.shared_functions import PythonFunction
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.intrinsics import add
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters

FILLED = {4: "i32", 8: "i64"}
"""Integers that `fill_routine` writes, by their bytes."""

JOINED = {"f32": CONSTANTS["f32"](1 << 31), "f64": CONSTANTS["f64"](1 << 63)}
"""Initial values of sums: -0, as x + -0 is x for every x."""


def _fill(kind: str) -> Callable[..., None]:
    store, narrow = MEMORY[f"store_{kind}"], MEMORY[f"to_{kind}"]

    def fill(address, count, bits):  # type: ignore[no-untyped-def]
        for number in range(count):
            store(address, number, narrow(bits))

    return fill


def _join(kind: str) -> Callable[..., None]:
    neutral = JOINED[kind]
    load, store = MEMORY[f"reload_{kind}"], MEMORY[f"store_{kind}"]
    kept, keep = MEMORY[f"kept_{kind}"], MEMORY[f"keep_{kind}"]

    def join(outside, inside, count):  # type: ignore[no-untyped-def]
        for number in range(count):
            store(outside, number, add(load(outside, number), kept(inside, number)))
            keep(inside, number, neutral)

    return join


def fill_routine(byte_width: int) -> Routine:
    """Return the routine that writes one value to consecutive elements."""
    return Routine(
        f"fill_{8 * byte_width}",
        (
            *parameters(Unit.WRITE, "address"),
            *parameters(Unit.COUNT, "count"),
            *parameters(Unit.NUMBER, "bits"),
        ),
        cost=lambda n: n["count"],
    )


def join_routine(kind: str) -> Routine:
    """Return the routine that adds a run of sums to those outside, and resets it.

    The two do not overlap.
    """
    addresses = parameters(Unit.UPDATE, "outside", "inside")
    given = *addresses, *parameters(Unit.COUNT, "count")
    return Routine(f"join_{kind}", given, cost=lambda n: 5 * n["count"])


COLUMN_SUMS: dict[str, Any] = {
    routine.name: PythonFunction(routine, function, Effort.OPTIMISED)
    for routine, function in (
        *((fill_routine(width), _fill(kind)) for width, kind in FILLED.items()),
        *((join_routine(kind), _join(kind)) for kind in JOINED),
    )
}
"""Every function of this module by its name in kernels."""
