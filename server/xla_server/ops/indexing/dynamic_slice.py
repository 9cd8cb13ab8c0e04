"""dynamic-slice and dynamic-update-slice: a box read or written where other values say.

Semantics: XLA's DynamicSlice and DynamicUpdateSlice: a start is moved so that the box lies inside
the operand.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_contract.ops.indexing.dynamic_slice import DynamicSliceAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_dynamic_slice(instruction: HloInstruction, operand: Array, *starts: Array) -> Array:
    """A view of the box at the start."""
    attributes: DynamicSliceAttributes = instruction.attributes
    return np.asarray(operand[_box(operand, starts, attributes.sizes)])


@of_operands
def evaluate_dynamic_update_slice(
    instruction: HloInstruction, operand: Array, update: Array, *starts: Array
) -> Array:
    """A copy of the operand with the update written at the start."""
    result = operand.copy()
    result[_box(operand, starts, update.shape)] = update
    return result


def _box(operand: Array, starts: Sequence[Array], sizes: Sequence[int]) -> Any:
    numbers = [int(start) for part in starts for start in np.ravel(part)]
    clamped = [
        min(max(start, 0), whole - size)
        for start, whole, size in zip(numbers, operand.shape, sizes, strict=True)
    ]
    boxes = zip(clamped, sizes, strict=True)
    # The ellipsis keeps the result of rank 0 an array.
    return (*(slice(begin, begin + size) for begin, size in boxes), ...)
