"""get-dimension-size of what has one size is that size."""

import dataclasses

import numpy as np

from xla_contract.element_type import ElementType
from xla_contract.literal import Literal
from xla_contract.opcode import Opcode
from xla_contract.ops.constant import ConstantAttributes
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.edit import Editor, rewrite_all


@dataclasses.dataclass(frozen=True)
class StaticSizes:
    """Writes sizes down as constants where the dimension is not dynamic."""

    name: str = "static-sizes"

    def apply(self, module: HloModule) -> bool:
        """Replace everywhere; whether anything was."""
        return rewrite_all(module, _size)


def _size(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    if i.opcode is not Opcode.GET_DIMENSION_SIZE:
        return None
    dimension, operand = i.attributes.dimension, i.operands[0].shape
    if operand.is_dynamic(dimension):
        return None
    size = np.array(operand.dimensions[dimension], ElementType.S32.dtype)
    return editor.add(Opcode.CONSTANT, (), ConstantAttributes(Literal.from_numpy(size)))
