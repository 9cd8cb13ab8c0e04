"""The evaluator of sort: a merge sort whose comparator runs on whole arrays.

Runs of doubling length are merged, all of them at once. A binary search finds how many elements of
the left run come before each one of the right run, which gives its position in the merged run; the
left run has the other positions. The comparator runs about log(n) squared times; equal elements
keep their order.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.ops.indexing.sort import SortAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.indices import Indices, Mask
from xla_server.ops.numerics.scalar_function import one_or_tuple


def evaluate_sort(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The operands in the order the comparator gives, always stable."""
    attributes: SortAttributes = instruction.attributes
    (comparator,) = instruction.called
    arrays = [cast(Array, operand) for operand in operands]
    return one_or_tuple(sorted_by(comparator, arrays, attributes.dimension, frame))


def sorted_by(
    comparator: HloComputation, arrays: Sequence[Array], dimension: int, frame: Frame
) -> list[Array]:
    """The arrays, sorted together along a dimension; equal elements keep their order."""
    moved = [np.moveaxis(array, dimension, -1) for array in arrays]
    order = _integer_order(comparator, moved)
    if order is None:
        order = _merge_order(comparator, moved, frame)
    return [np.moveaxis(np.take_along_axis(array, order, -1), -1, dimension) for array in moved]


def _integer_order(comparator: HloComputation, arrays: Sequence[Array]) -> Indices | None:
    """The order by one integer operand, if that is all the comparator looks at."""
    root, parameters = comparator.root, list(comparator.parameters)
    compared = [parameters.index(part) for part in root.operands if part in parameters]
    integers = [n for n, array in enumerate(arrays) if array.dtype.kind in "iu"]
    if (
        root.opcode is not Opcode.COMPARE
        or sorted(compared) not in [[2 * n, 2 * n + 1] for n in integers]
        or root.attributes.direction not in (ComparisonDirection.LT, ComparisonDirection.GT)
    ):
        return None
    first, second = compared
    ascending = (root.attributes.direction is ComparisonDirection.LT) == (first < second)
    keys = cast(Indices, arrays[first // 2])
    # The complement of an integer orders the other way round without overflow.
    return np.argsort(keys if ascending else ~keys, axis=-1, kind="stable")


def _merge_order(comparator: HloComputation, arrays: Sequence[Array], frame: Frame) -> Indices:
    length = arrays[0].shape[-1]
    rows = arrays[0].size // length if length else 0
    flat = [array.reshape(rows, length) for array in arrays]
    row = np.arange(rows)[:, None]
    order = np.broadcast_to(np.arange(length), (rows, length))
    width = 1
    while width < length:
        right = np.flatnonzero(np.arange(length) // width % 2)
        runs = [array[row, order] for array in flat]
        position = right % width + _end_of_left(comparator, runs, right, width, frame)
        is_right = np.zeros(order.shape, np.bool_)
        is_right[row, position] = True
        merged = np.empty_like(order)
        merged[is_right] = order[:, right].ravel()
        merged[~is_right] = np.delete(order, right, axis=1).ravel()
        order = merged
        width *= 2
    return order.reshape(arrays[0].shape)


def _end_of_left(
    comparator: HloComputation,
    arrays: Sequence[Array],
    right: Indices,
    width: int,
    frame: Frame,
) -> Indices:
    """Return, for each of `right`, the end of those before it in the run left of its own.

    The sort is stable: the left run's elements come first among equals. No end precedes that of an
    earlier element, so each has a position of its own, even if the comparator gives no order, as
    `<` with NaN.
    """
    rows = arrays[0].shape[0]
    row = np.arange(rows)[:, None]
    top = np.broadcast_to(right - right % width, (rows, len(right)))
    bottom = top - width
    while np.any(bottom < top):
        middle = (bottom + top) // 2
        pairs = [part for array in arrays for part in (array[:, right], array[row, middle])]
        is_before = cast(Mask, frame.call_lifted(comparator, pairs))
        goes_up = ~is_before & (bottom < top)
        bottom, top = (
            np.where(goes_up, middle + 1, bottom),
            np.where(goes_up, top, np.minimum(middle, top)),
        )
    return np.maximum.accumulate(bottom, axis=-1)
