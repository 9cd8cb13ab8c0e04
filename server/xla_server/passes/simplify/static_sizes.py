"""get-dimension-size of static dimensions, as constants."""

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class StaticSizes(RewritePass):
    """Replaces sizes of dimensions that are not dynamic by constants."""

    name = "static-sizes"
    opcodes = (Opcode.GET_DIMENSION_SIZE,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        dimension, operand = i.attributes.dimension, i.operands[0].shape
        if operand.is_dynamic(dimension):
            return None
        return editor.constant(operand.dimensions[dimension], ElementType.S32)
