"""LLVM's metadata of loops: requests to unroll a loop, or to vectorise a short one.

LLVM by itself does not vectorise loops of fewer than 16 iterations, such as those over the rows of
f32[1000,15], and runs the iterations that do not fill a vector one by one: of 15 elements, with
vectors of 16, all of them.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from xla_server.codegen.kernel_ir.statements import For
from xla_server.codegen.kernel_ir.unrolling import constant_iterations
from xla_server.codegen.kernel_ir.vectors import is_of_stores
from xla_server.target.machine import Machine

_VECTOR = 16
"""Elements of 32 bits in a vector of 64 bytes, the widest there are."""

_MOST_ITERATIONS = 64
"""Iterations of a loop beyond which the last ones are a small part of it."""

VECTORISED = "llvm.loop.vectorize.enable"
MASKED = "llvm.loop.vectorize.predicate.enable"
"""The last iterations run under a mask and take as long as one vector does. Only processors with
masks in registers gain by it: on others a masked store takes longer than it saves."""


def vector_request(loop: For, machine: Machine) -> str | None:
    """Return the name of the request to vectorise a loop; None where there is none.

    The loop has a constant and small number of iterations, stores values, and has no iteration
    that reads what the one before has computed.
    """
    iterations = constant_iterations(loop)
    if iterations is None or iterations >= _MOST_ITERATIONS or not iterations % _VECTOR:
        return None
    if not is_of_stores(loop):
        return None
    if machine.has_masks:
        return MASKED
    return VECTORISED if iterations < _VECTOR else None


def request_vectors(back: Any, request: str) -> None:
    """Request vectors for a loop, on the branch back to the loop's beginning."""
    one = ir.Constant(ir.IntType(1), 1)
    _name_loop(back, [ir.MetaDataString(back.function.module, request), one])


def request_unrolling(back: Any) -> None:
    """Request that a loop is unrolled, on the branch back to its beginning."""
    _name_loop(back, [ir.MetaDataString(back.function.module, "llvm.loop.unroll.full")])


def _name_loop(back: Any, request: Sequence[Any]) -> None:
    """Give a loop a name of its own with a request."""
    module = back.function.module
    requested = module.add_metadata(request)
    # The name of a loop is the first part of itself; until then the number tells it from others.
    number = ir.MetaDataString(module, str(len(module.metadata)))
    name = module.add_metadata([number, requested])
    name.operands = (name, requested)
    back.set_metadata("llvm.loop", name)
