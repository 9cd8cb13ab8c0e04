"""bitcast: memory read as another shape.

Semantics: XLA's kBitcast: operand and result lie in the same memory under their own layouts.
"""

import numpy as np

from xla_contract.errors import UnimplementedError
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_bitcast(instruction: HloInstruction, operand: Array) -> Array:
    """Lay the operand out, and read the memory as the result."""
    source, target = instruction.operands[0].shape, instruction.shape
    memory = np.ascontiguousarray(np.transpose(operand, _order(source)))
    order = _order(target)
    physical = [target.dimensions[dimension] for dimension in order]
    array = memory.reshape(-1).view(target.element_type.dtype).reshape(physical)
    return array.transpose(np.argsort(order))


def _order(shape: Shape) -> tuple[int, ...]:
    layout = shape.layout_or_default
    if layout.is_padded or layout.tiles:
        raise UnimplementedError(f"bitcast needs layouts without padding and tiles, got {shape}")
    return layout.major_to_minor
