"""bitcast-convert: the bits of an array read as another element type.

Semantics: XLA's BitcastConvertType; the parts of a wide element come low bits first.
A PRED is true if one of its eight bits is set.
"""

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import of_operands
from xla_server.ops.numerics.numeric import Array


@of_operands
def evaluate_bitcast_convert(instruction: HloInstruction, operand: Array) -> Array:
    """The operand's bits, regrouped along a last dimension where widths differ."""
    source = instruction.operands[0].shape.element_type
    target = instruction.shape.element_type
    bits = reread(operand, source, target)
    if source.bit_width == target.bit_width:
        # A computation on scalars may be applied to arrays.
        return bits.reshape(np.shape(operand))
    return bits.reshape(instruction.shape.dimensions)


def reread(array: Array, source: ElementType, target: ElementType) -> Array:
    """The elements in row-major order as a list of elements of `target` with the same bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    old_width, new_width = source.bit_width, target.bit_width
    kind = np.dtype(np.uint8) if target is ElementType.PRED else target.dtype
    if old_width >= 8 and new_width >= 8:
        return flat.view(kind).astype(target.dtype, copy=False)
    stored = flat.view(np.uint8).reshape(-1, source.byte_width)
    bits = np.unpackbits(stored, axis=1, bitorder="little")[:, :old_width]
    regrouped = np.packbits(bits.reshape(-1, new_width), axis=1, bitorder="little")
    return regrouped.reshape(-1).view(kind).astype(target.dtype, copy=False)
