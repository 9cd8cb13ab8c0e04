"""The evaluator of reduce.

Elements are combined in pairs of neighbours, then pairs of pairs, and the initial value last
from the left, so that a reducer of any kind takes few passes over whole arrays. XLA leaves the
order open.
"""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.reduction.reduce import ReduceAttributes
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.scalar_function import (
    as_arrays,
    one_or_tuple,
    parameter_dtypes,
    recognise,
    round_to,
    rounded_once,
)
from xla_server.ops.reduction.wide_reducer import entered


def evaluate_reduce(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Known reducers as one numpy reduction, rounded once; others lifted to arrays."""
    attributes: ReduceAttributes = instruction.attributes
    (reducer,) = instruction.called
    count = len(operands) // 2
    arrays = [cast(Array, operand) for operand in operands[:count]]
    initial = [cast(Array, operand) for operand in operands[count:]]
    known = recognise(reducer)
    if known is None:
        return _lifted(reducer, arrays, initial, attributes.dimensions, frame)
    # numpy widens what it adds piece by piece.
    elements = known.to_keys(arrays[0]) if known.has_keys else round_to(arrays[0], known.dtype)
    total = known.ufunc.reduce(
        elements,
        axis=attributes.dimensions,
        dtype=known.wide,
        initial=known.to_keys(initial[0]).item(),
    )
    return known.from_keys(total)


def _lifted(
    reducer: HloComputation,
    arrays: Sequence[Array],
    initial: Sequence[Array],
    dimensions: tuple[int, ...],
    frame: Frame,
) -> Value:
    kept = tuple(n for n in range(arrays[0].ndim) if n not in dimensions)
    rest = tuple(arrays[0].shape[number] for number in kept)
    depth = math.prod(arrays[0].shape[number] for number in dimensions)
    wide, given = entered(reducer, [*initial, *arrays])
    start = [np.broadcast_to(value, rest) for value in given[: len(arrays)]]
    rows = [
        array.transpose(dimensions + kept).reshape(depth, *rest) for array in given[len(arrays) :]
    ]
    return one_or_tuple(rounded_once(reducer, _combined(wide, start, rows, frame)))


def _combined(
    reducer: HloComputation, start: Sequence[Array], rows: Sequence[Array], frame: Frame
) -> Sequence[Array]:
    """Combine rows in pairs of neighbours and with what they start from, in the reducer's types."""
    dtypes, depth = parameter_dtypes(reducer), len(rows[0])
    if dtypes[: len(rows)] != dtypes[len(rows) :]:
        # Accumulators of another type than the elements cannot be combined with each other.
        for row in range(depth):
            start = _combine(reducer, start, [array[row] for array in rows], frame)
        return start
    if not depth:
        return start
    while len(rows[0]) > 1:
        even = len(rows[0]) // 2 * 2
        pairs = _combine(reducer, [a[0:even:2] for a in rows], [a[1:even:2] for a in rows], frame)
        rows = [np.concatenate([p, a[even:]]) for p, a in zip(pairs, rows, strict=True)]
    return _combine(reducer, start, [array[0] for array in rows], frame)


def _combine(
    reducer: HloComputation, left: Sequence[Array], right: Sequence[Array], frame: Frame
) -> tuple[Array, ...]:
    return as_arrays(frame.call_lifted(reducer, [*left, *right]))
