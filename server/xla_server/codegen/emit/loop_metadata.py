"""LLVM's metadata of loops: requests to unroll a loop, or how to vectorise it."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from llvmlite import ir

from xla_server.codegen.kernel_ir.analysis import vectors
from xla_server.codegen.kernel_ir.statements import For
from xla_server.codegen.kernel_ir.unrolling import constant_iterations
from xla_server.target.machine import Machine
from xla_server.target.tuning import tuning_of

Request: TypeAlias = Mapping[str, bool | int | None]
"""Properties of a loop by their names; None for those that have no value."""

UNROLLED: Request = {"llvm.loop.unroll.full": None}
VECTORISED: Request = {"llvm.loop.vectorize.enable": True}
MASKED: Request = {"llvm.loop.vectorize.predicate.enable": True}
"""The last iterations run under a mask and take as long as one vector does. Only processors with
masks in registers gain by it: on others a masked store takes longer than it saves."""


def vector_request(loop: For, machine: Machine) -> Request | None:
    """Return the request to vectorise a loop; None to request nothing.

    Three kinds of loops have one: loops marked for vectors, sums of elements that are loaded one by
    one, and loops of few iterations, a constant number, that store values and carry none.
    """
    if loop.vectorised:
        return VECTORISED
    iterations, short = constant_iterations(loop), tuning_of(machine).short_loops
    if vectors.sums_elements_apart(loop):
        # LLVM itself takes up to four vectors at once.
        return {"llvm.loop.vectorize.width": short.elements_apart, "llvm.loop.interleave.count": 1}
    if iterations is None or iterations >= short.max_iterations:
        return None
    if not iterations % short.vector_elements:
        return None
    if not vectors.is_of_stores(loop):
        return None
    # Four and eight are narrower vectors. A load waits for a masked store before it to be done.
    if machine.has_masks and iterations not in (4, 8) and vectors.gains_by_masks(loop):
        return MASKED
    return VECTORISED if iterations < short.vector_elements else None


def request(back: Any, properties: Request) -> None:
    """Request properties of a loop, on the branch back to its beginning."""
    module = back.function.module
    requested = []
    for name, value in properties.items():
        bits = ir.IntType(1 if isinstance(value, bool) else 32)
        values = [] if value is None else [ir.Constant(bits, int(value))]
        requested.append(module.add_metadata([ir.MetaDataString(module, name), *values]))
    # The name of a loop is the first part of itself; until then the number tells it from others.
    number = ir.MetaDataString(module, str(len(module.metadata)))
    loop = module.add_metadata([number, *requested])
    loop.operands = (loop, *requested)
    back.set_metadata("llvm.loop", loop)
