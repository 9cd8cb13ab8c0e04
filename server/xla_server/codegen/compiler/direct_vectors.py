"""Vectorisation of short loops, such as those over the rows of f32[1000,15].

LLVM by itself does not vectorise loops of fewer than 16 iterations, and runs the iterations that
do not fill a vector one by one: of 15 elements, with vectors of 16, all of them.
"""

import ast
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from xla_server.codegen.compiler.direct_names import names_in
from xla_server.codegen.compiler.direct_unrolling import constant_trips, name_loop
from xla_server.target.machine import Machine

_VECTOR = 16
"""Elements of 32 bits in a vector of 64 bytes, the widest there are."""

_MOST_TRIPS = 64
"""Iterations of a loop beyond which the last ones are a small part of it."""

_VECTORISED = "llvm.loop.vectorize.enable"
_MASKED = "llvm.loop.vectorize.predicate.enable"
"""The last iterations run under a mask and take as long as one vector does. Only processors with
masks in registers gain by it: on others a masked store takes longer than it saves."""


def vector_wish(loop: ast.For, machine: Machine) -> str | None:
    """Return the name of the wish that LLVM gets for a loop; None where there is none.

    The loop has a constant and small number of iterations, stores values, and has no iteration
    that reads what the one before has computed.
    """
    return wish_for(constant_trips(loop), lambda: _is_of_stores(loop), machine)


def wish_for(
    iterations: int | None, is_of_stores: Callable[[], bool], machine: Machine
) -> str | None:
    """Return the same of a loop of so many iterations, None if that is not known."""
    if iterations is None or iterations >= _MOST_TRIPS or not iterations % _VECTOR:
        return None
    if not is_of_stores():
        return None
    if machine.has_masks:
        return _MASKED
    return _VECTORISED if iterations < _VECTOR else None


def wish_for_vectors(back: Any, wish: str) -> None:
    """Give a loop this wish, by the instruction that goes back to the loop's beginning."""
    name_loop(back, [ir.MetaDataString(back.function.module, wish), ir.Constant(ir.IntType(1), 1)])


def _is_of_stores(loop: ast.For) -> bool:
    """Return whether a loop's body has stores, and values computed before they are read."""
    stores = 0
    inside = {name.id for name in names_in(loop) if isinstance(name.ctx, ast.Store)}
    known = {name.id for name in names_in(loop.target)}
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=result)], value=value):
                read, given = value, {result}
            case ast.Expr(value=ast.Call(func=ast.Name(id=function)) as value):
                if not function.startswith("store_"):
                    return False
                stores += 1
                read, given = value, set()
            case _:
                return False
        if any(name.id in inside - known for name in names_in(read)):
            return False
        known |= given
    return stores > 0
