"""pad (XLA's Pad): an array with a value around and between its elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_contract.ops.shaping.pad import PadAttributes
from xla_contract.types.dimension_numbers import PaddingDimension, dilated
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_pad(instruction: HloInstruction, operand: Array, value: Array) -> Array:
    """The padding value everywhere, and over it those elements that are not cut off."""
    attributes: PadAttributes = instruction.attributes
    return padded(operand, value, attributes.config.dimensions)


def padded(operand: Array, value: Any, paddings: Sequence[PaddingDimension]) -> Array:
    """A new array: the elements of one, and a value around and between them."""
    sizes = [
        padding.low + dilated(size, padding.interior + 1) + padding.high
        for padding, size in zip(paddings, operand.shape, strict=True)
    ]
    result = np.full(sizes, value, operand.dtype)
    dimensions = zip(paddings, operand.shape, result.shape, strict=True)
    slices = [_slices(padding, old, new) for padding, old, new in dimensions]
    result[tuple(target for _, target in slices)] = operand[tuple(source for source, _ in slices)]
    return result


def _slices(padding: PaddingDimension, old: int, new: int) -> tuple[slice, slice]:
    """Return the slice of kept elements and that of their positions: i goes to low + i * step."""
    step = padding.interior + 1
    first = max(0, -(padding.low // step))
    last = max(first, min(old, -((padding.low - new) // step)))
    start = padding.low + first * step
    return slice(first, last), slice(start, start + (last - first) * step, step)
