"""LLVM's metadata of loops: requests to unroll a loop, or to vectorise a short one."""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from xla_server.codegen.kernel_ir.analysis.vectors import gains_by_masks, is_of_stores
from xla_server.codegen.kernel_ir.statements import For
from xla_server.codegen.kernel_ir.unrolling import constant_iterations
from xla_server.target.machine import Machine
from xla_server.target.tuning import tuning_of

VECTORISED = "llvm.loop.vectorize.enable"
MASKED = "llvm.loop.vectorize.predicate.enable"
"""The last iterations run under a mask and take as long as one vector does. Only processors with
masks in registers gain by it: on others a masked store takes longer than it saves."""


def vector_request(loop: For, machine: Machine) -> str | None:
    """Return the name of the request to vectorise a loop; None where there is none.

    The loop is marked for vectors, or has a constant and small number of iterations, stores values,
    and has no iteration that reads what the one before has computed.
    """
    if loop.vectorised:
        return VECTORISED
    iterations, short = constant_iterations(loop), tuning_of(machine).short_loops
    if iterations is None or iterations >= short.max_iterations:
        return None
    if not iterations % short.vector_elements:
        return None
    if not is_of_stores(loop):
        return None
    # Four and eight are narrower vectors. A load waits for a masked store before it to be done.
    if machine.has_masks and iterations not in (4, 8) and gains_by_masks(loop):
        return MASKED
    return VECTORISED if iterations < short.vector_elements else None


def request_vectors(back: Any, request: str) -> None:
    """Request vectors for a loop, on the branch back to the loop's beginning."""
    one = ir.Constant(ir.IntType(1), 1)
    _name_loop(back, [ir.MetaDataString(back.function.module, request), one])


def request_unrolling(back: Any) -> None:
    """Request that a loop is unrolled, on the branch back to its beginning."""
    _name_loop(back, [ir.MetaDataString(back.function.module, "llvm.loop.unroll.full")])


def _name_loop(back: Any, request: Sequence[Any]) -> None:
    module = back.function.module
    requested = module.add_metadata(request)
    # The name of a loop is the first part of itself; until then the number tells it from others.
    number = ir.MetaDataString(module, str(len(module.metadata)))
    name = module.add_metadata([number, requested])
    name.operands = (name, requested)
    back.set_metadata("llvm.loop", name)
