"""The evaluator of reduce-window: window elements one after the other, positions all at once.

Padding is no element: it is not combined, whatever the initial value.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.reduction.reduce_window import ReduceWindowAttributes
from xla_contract.types.dimension_numbers import Window, WindowDimension
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics import scalar_function
from xla_server.ops.numerics.windows import reads
from xla_server.ops.reduction.wide_reducer import entered


def evaluate_reduce_window(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Known reducers through their ufunc, rounded once; others lifted to arrays."""
    attributes: ReduceWindowAttributes = instruction.attributes
    (reducer,) = instruction.called
    window = attributes.window
    count = len(operands) // 2
    arrays = [cast(Array, operand) for operand in operands[:count]]
    initial = [cast(Array, operand) for operand in operands[count:]]
    known = scalar_function.recognise(reducer)
    outputs = instruction.shape.parts[0].dimensions
    if known is not None:
        return _known(known, arrays[0], initial[0], window, outputs, frame)
    wide, given = entered(reducer, [*initial, *arrays])
    bases, totals = given[count:], [np.full(outputs, value) for value in given[:count]]
    for at_outputs, at_base in reads(window, bases[0].shape, outputs):
        left = [total[at_outputs] for total in totals]
        right = [base[at_base] for base in bases]
        combined = scalar_function.as_arrays(frame.call_lifted(wide, [*left, *right]))
        for total, part in zip(totals, combined, strict=True):
            total[at_outputs] = part
    return scalar_function.one_or_tuple(scalar_function.rounded_once(reducer, totals))


def _known(
    known: scalar_function.Combiner,
    array: Array,
    initial: Array,
    window: Window,
    outputs: tuple[int, ...],
    frame: Frame,
) -> Array:
    ufunc, base, start = known.ufunc, known.to_keys(array), known.to_keys(initial)
    axis = running_axis(window, array.shape)
    if axis is not None:
        backwards = window.dimensions[axis].padding_low == 0
        ordered = np.flip(base, axis) if backwards else base
        running = ufunc(start, ufunc.accumulate(ordered, axis=axis, dtype=known.wide))
        return known.from_keys(np.flip(running, axis) if backwards else running)
    totals = np.full(outputs, start, known.wide)
    for at_outputs, at_base in reads(window, base.shape, outputs):
        frame.check_cancelled()
        totals[at_outputs] = ufunc(totals[at_outputs], base[at_base])
    return known.from_keys(totals)


def running_axis(window: Window, base: Sequence[int]) -> int | None:
    """Return the only axis that the window slides along, if it covers all elements on a side.

    Running sums have this form; they take one pass instead of one per element.
    """
    moving = [n for n, d in enumerate(window.dimensions) if d != WindowDimension(1)]
    if len(moving) != 1:
        return None
    (axis,) = moving
    size = base[axis]
    before = WindowDimension(size, padding_low=size - 1)
    behind = WindowDimension(size, padding_high=size - 1)
    return axis if window.dimensions[axis] in (before, behind) else None
