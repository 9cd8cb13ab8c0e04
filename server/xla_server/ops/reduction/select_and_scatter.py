"""The evaluator of select-and-scatter.

A window visits its elements in row-major order and selects the first; a later element replaces it
when select(selected, later) is false. Padding is no element. The source value of the window is then
combined into the selected element.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.reduction.select_and_scatter import SelectAndScatterAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.combining import combine_at
from xla_server.ops.numerics.indices import Mask
from xla_server.ops.numerics.windows import reads


def evaluate_select_and_scatter(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Window elements one after the other, windows all at once."""
    attributes: SelectAndScatterAttributes = instruction.attributes
    select, scatter = instruction.called
    operand, source, initial = (cast(Array, item) for item in operands)
    indices = np.arange(operand.size).reshape(operand.shape)
    kept = np.zeros(source.shape, operand.dtype)
    selected = np.full(source.shape, -1, np.int64)
    for at_outputs, at_base in reads(attributes.window, operand.shape, source.shape):
        candidate = operand[at_base]
        stays = cast(Mask, frame.call_lifted(select, [kept[at_outputs], candidate]))
        replace = ~stays | (selected[at_outputs] < 0)
        kept[at_outputs] = np.where(replace, candidate, kept[at_outputs])
        selected[at_outputs] = np.where(replace, indices[at_base], selected[at_outputs])
    chosen = selected.reshape(-1)
    found = chosen >= 0
    target = np.full(operand.size, initial, operand.dtype)
    (result,) = combine_at(scatter, [target], chosen[found], [source.reshape(-1)[found]], frame)
    return result.reshape(operand.shape)
