"""The evaluator of scan: one call for each slice, in order."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.reduction.scan import ScanAttributes
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value


def evaluate_scan(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Deep[Value]:
    """The results of the steps, stacked, and the carried values of the last one."""
    attributes: ScanAttributes = instruction.attributes
    (step,) = instruction.called
    shapes = instruction.shape.parts
    count = len(operands) - attributes.carries
    inputs = [
        np.moveaxis(cast(Array, array), attributes.dimension, 0) for array in operands[:count]
    ]
    carried = tuple(operands[count:])
    outputs = [
        np.zeros(shape.dimensions, shape.element_type.dtype)
        for shape in shapes[: len(shapes) - attributes.carries]
    ]
    slots = [np.moveaxis(output, attributes.dimension, 0) for output in outputs]
    indices = range(len(inputs[0]))
    for index in reversed(indices) if attributes.is_reverse else indices:
        frame.check_cancelled()
        # A slice of a line is a number to numpy; the ellipsis keeps it an array.
        returned: Value = yield frame.enter(
            step, (*(array[index, ...] for array in inputs), *carried)
        )
        results = returned if isinstance(returned, tuple) else (returned,)
        for slot, value in zip(slots, results, strict=False):
            slot[index] = value
        carried = results[len(slots) :]
    found = (*outputs, *carried)
    return found if instruction.shape.is_tuple else found[0]
