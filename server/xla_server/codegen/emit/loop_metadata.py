"""LLVM's loop metadata: requests to unroll a loop, to vectorise it or not to."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from llvmlite import ir

from xla_server.codegen.kernel_ir.analysis import vectors
from xla_server.codegen.kernel_ir.statements import For, ParallelFor
from xla_server.codegen.kernel_ir.unrolling import constant_iterations, is_long_column
from xla_server.target.loop_tuning import ShortLoops
from xla_server.target.machine import Machine
from xla_server.target.tuning import tuning_of

Request: TypeAlias = Mapping[str, bool | int | None]
"""Loop metadata by LLVM's names; None for properties without a value."""

UNROLLED: Request = {"llvm.loop.unroll.full": None}
SCALAR: Request = {"llvm.loop.vectorize.enable": False}
VECTORISED: Request = {"llvm.loop.vectorize.enable": True}
MASKED: Request = {"llvm.loop.vectorize.predicate.enable": True}
"""Vectorise with a masked last vector instead of a scalar remainder. It pays only on processors
with mask registers: on others a masked store takes longer than it saves."""


def vector_request(loop: For, machine: Machine) -> Request | None:
    """Return the request to vectorise a loop, or not to; None to request nothing.

    It is returned for loops marked for vectors, sums of elements that are loaded one by one, and
    loops of a small constant number of iterations that store values and carry none.
    """
    if loop.vectorised:
        return VECTORISED
    short = tuning_of(machine).short_loops
    if vectors.sums_elements_apart(loop):
        return _request_of_sums(loop, short)
    return _request_of_stores(loop, short, has_masks=machine.has_masks)


def _request_of_sums(loop: For, short: ShortLoops) -> Request:
    """Return narrow vectors; none for sums that do not fill one, unless they are neighbours."""
    iterations, width = constant_iterations(loop), short.elements_apart
    # A vector would not be filled, and have each of its loads under a mask.
    if iterations is not None and iterations < width and not vectors.is_of_sums(loop):
        return SCALAR
    # LLVM's default interleaves up to four vectors.
    return {"llvm.loop.vectorize.width": width, "llvm.loop.interleave.count": 1}


def _request_of_stores(loop: For, short: ShortLoops, *, has_masks: bool) -> Request | None:
    """Return vectors for rows that LLVM would store in part by scalars; none for long columns."""
    iterations = constant_iterations(loop)
    if iterations is None or iterations >= short.max_masked_iterations:
        return None
    left, is_short = iterations % short.vector_elements, iterations < short.max_iterations
    if is_short and is_long_column(loop):
        return SCALAR
    if not left or not vectors.is_of_stores(loop):
        return None
    is_mostly_full = 2 * left > short.vector_elements and not vectors.is_wide(loop)
    # Loops of 4 and 8 fill narrower vectors, without a mask. Others must gain more by it than it
    # costs: a load after a masked store waits until that is in the cache.
    may_have_masks = has_masks and iterations not in (4, 8) and (is_short or is_mostly_full)
    if may_have_masks and vectors.gains_by_masks(loop):
        return MASKED
    return VECTORISED if iterations < short.vector_elements else None


def item_request(part: ParallelFor, machine: Machine) -> Request | None:
    """Return the request not to vectorise a loop over work items; None to request nothing.

    It is returned for a loop that stores at a stride, if it has too few items for a vector, or its
    elements are too far apart for LLVM's interleaved groups. So it is for one that stores at a
    stride or at computed indices, if many of its loads are at such: LLVM would load and store each
    element of a vector by itself. Loops with costly functions have no request.
    """
    if vectors.has_costly_functions(part):
        return None
    short = tuning_of(machine).short_loops
    is_apart = vectors.stores_apart(part)
    is_short = part.items < short.vector_elements
    is_far = is_short or vectors.accesses_apart(part, short.max_group_stride + 1)
    loads, is_scattered = vectors.computed_accesses(part)
    is_computed = loads > short.max_gathers and (is_apart or is_scattered)
    return SCALAR if (is_far and is_apart) or is_computed else None


def request(back: Any, properties: Request) -> None:
    """Attach loop metadata to the branch back to a loop's beginning."""
    module = back.function.module
    requested = []
    for name, value in properties.items():
        bits = ir.IntType(1 if isinstance(value, bool) else 32)
        values = [] if value is None else [ir.Constant(bits, int(value))]
        requested.append(module.add_metadata([ir.MetaDataString(module, name), *values]))
    # The first operand of a loop's metadata is the metadata itself, which tells loops apart. Until
    # that operand is set, a number does.
    number = ir.MetaDataString(module, str(len(module.metadata)))
    loop = module.add_metadata([number, *requested])
    loop.operands = (loop, *requested)
    back.set_metadata("llvm.loop", loop)
