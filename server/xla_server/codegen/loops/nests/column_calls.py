"""Runs over neighbouring results that are calls of functions which programs share."""

import math
from collections.abc import Container, Sequence

from xla_server.codegen.kernel_ir.expressions import Address, Apply, Expression, integer_op
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.loops.reductions.vector_reductions import strict
from xla_server.codegen.routines.column_sums import COLUMN_SUMS, FILLED, JOINED
from xla_server.codegen.trace.graph import ReductionResult, Store, variables_of
from xla_server.ir.affine import Affine, Variable, variable
from xla_server.target.loop_tuning import LoopNests


def may_call(
    last: Variable,
    size: int,
    results: Sequence[tuple[Store, ReductionResult]],
    summed: Container[ReductionResult],
    tuned: LoopNests,
) -> bool:
    """Return whether runs of `size` along `last` that begin or join results can be calls.

    `summed` have sums that are added to sums.
    """
    rows = math.prod(loop.size for loop in results[0][1].reduction.loops)
    if size < tuned.min_call_columns or size * rows < tuned.min_call_elements:
        return False
    return all(
        result.type == store.kernel_type.storage
        and result.type[0] in "iuf"
        and Type(result.type).byte_size in FILLED
        and last not in variables_of(row_start(store, last))
        and last not in result.reduction.initial[result.number].variables
        and (result not in summed or (strict(result.reduction) == "add" and result.type in JOINED))
        for store, result in results
    )


def row_start(store: Store, last: Variable) -> Affine:
    """Return the index at which a row of a store begins.

    It contains `last` if neighbours along it are not contiguous.
    """
    return store.offset + variable(last) * -1


def fill(address: Address, count: Expression, kind: str, value: Expression) -> Call:
    """Return the call that writes a value to `count` neighbours."""
    width = Type(kind).byte_size
    bits = Apply(f"bits_{FILLED[width]}", (value,), Type(FILLED[width]))
    given = {"address": address, "count": count, "bits": integer_op("to_i64", bits)}
    return Call.of(COLUMN_SUMS[f"fill_{8 * width}"].routine, given)


def join(outside: Address, inside: Address, count: Expression, kind: str) -> Call:
    """Return the call that adds a run of sums to those outside, and begins it anew."""
    given = {"outside": outside, "inside": inside, "count": count}
    return Call.of(COLUMN_SUMS[f"join_{kind}"].routine, given)
