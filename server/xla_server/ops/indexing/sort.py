"""The evaluator of sort: a merge sort whose comparator runs on whole arrays.

Runs of doubling length are merged, all of them at once. An element's position in the merged run is
its position in its own run plus the number of elements of the other run before it, which a binary
search counts. The comparator runs about log(n) squared times; equal elements keep their order.
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
    root = comparator.root
    if root.opcode is not Opcode.COMPARE or any(
        part not in comparator.parameters for part in root.operands
    ):
        return None
    first, second = (comparator.parameters.index(part) for part in root.operands)
    direction = root.attributes.direction
    if (
        direction not in (ComparisonDirection.LT, ComparisonDirection.GT)
        or first // 2 != second // 2
        or first == second
        or arrays[first // 2].dtype.kind not in "iu"
    ):
        return None
    ascending = (direction is ComparisonDirection.LT) == (first < second)
    keys = cast(Indices, arrays[first // 2])
    # The complement of an integer orders the other way round without overflow.
    return np.argsort(keys if ascending else ~keys, axis=-1, kind="stable")


def _merge_order(comparator: HloComputation, arrays: Sequence[Array], frame: Frame) -> Indices:
    length = arrays[0].shape[-1]
    rows = arrays[0].size // length if length else 0
    flat = [array.reshape(rows, length) for array in arrays]
    row = np.arange(rows)[:, None]
    order = np.broadcast_to(np.arange(length), (rows, length))
    place = np.arange(length)
    width = 1
    while width < length:
        # Each element's position in its run, and the bounds of the neighbouring run.
        start = place // width * width
        is_left = (place // width) % 2 == 0
        low = np.where(is_left, np.minimum(start + width, length), start - width)
        high = np.where(is_left, np.minimum(start + 2 * width, length), start)
        sorted_now = [array[row, order] for array in flat]
        before = _count_before(comparator, sorted_now, low, high, is_left, frame)
        merged = np.where(is_left, start, start - width) + (place - start) + before
        new_order = np.array(order)
        new_order[row, merged] = order
        order = new_order
        width *= 2
    return order.reshape(arrays[0].shape)


def _count_before(
    comparator: HloComputation,
    arrays: Sequence[Array],
    low: Indices,
    high: Indices,
    is_left: Mask,
    frame: Frame,
) -> Indices:
    """Return the number of elements of the sorted run [low, high) before each element.

    The sort is stable: the left run's elements come first among equals.
    """
    rows, length = arrays[0].shape
    row = np.arange(rows)[:, None]
    left = np.broadcast_to(is_left, (rows, length))
    bottom = np.broadcast_to(low, (rows, length))
    top = np.broadcast_to(high, (rows, length))
    while np.any(bottom < top):
        middle = (bottom + top) // 2
        probe = np.minimum(middle, length - 1)
        pairs: list[Array] = []
        for array in arrays:
            other = array[row, probe]
            # A left element asks "is the other before me", a right one "am I before the other".
            pairs += [np.where(left, other, array), np.where(left, array, other)]
        answer = cast(Mask, frame.call_lifted(comparator, pairs))
        goes_up = (answer == left) & (bottom < top)
        bottom, top = (
            np.where(goes_up, middle + 1, bottom),
            np.where(goes_up, top, np.minimum(middle, top)),
        )
    return bottom - low
