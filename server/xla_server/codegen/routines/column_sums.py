"""Routines that kernels call before and after they add rows to a run of neighbouring sums.

Every reduction by columns has these loops, the same in each but for addresses and counts. They are
a small part of its time, but were a fourth of its compilation.
"""

import functools
from collections.abc import Callable
from typing import Any

from xla_server.codegen.compiler.direct_compiler import write_function
from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.intrinsics import add
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel_ir.effort import Effort

FILLED = {4: "i32", 8: "i64"}
"""Integers that `fill_function` writes, by their bytes."""

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


def fill_function(byte_width: int) -> str:
    """Return the name of the function that writes one value to consecutive elements.

    It takes the address of the first, how many there are, and the value's bits as an int64.
    """
    return f"fill_{8 * byte_width}"


def join_function(kind: str) -> str:
    """Return the name of the function that adds a run of sums to those outside, and resets it.

    It takes the addresses of the sums outside and of those inside, which do not overlap, and how
    many there are of each.
    """
    return f"join_{kind}"


def _shared(name: str, function: Callable[..., None]) -> SharedFunction:
    write = functools.partial(write_function, function=function)
    return SharedFunction(name, 3, write, Effort.OPTIMISED)


COLUMN_SUMS: dict[str, Any] = {
    name: _shared(name, function)
    for name, function in (
        *((fill_function(width), _fill(kind)) for width, kind in FILLED.items()),
        *((join_function(kind), _join(kind)) for kind in JOINED),
    )
}
"""Every function of this module by its name in kernels."""
