"""scaled-dot in terms of multiplications by the scales and a dot."""

import dataclasses

from xla_contract.ops.contraction.dot import DotAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.contraction.scaled_dot import wider_type
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass
from xla_server.passes.simplify.rules.shapes import repeated


class ScaledDotExpander(RewritePass):
    """Writes scaled dots as dots of operands that are multiplied by their scales."""

    name = "scaled-dot-expander"
    opcodes = (Opcode.SCALED_DOT,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        lhs = _dequantized(i.operands[0], i.operands[2], editor)
        rhs = _dequantized(i.operands[1], i.operands[3], editor)
        common = wider_type(lhs.shape.element_type, rhs.shape.element_type)
        result = i.shape.element_type
        attributes: DotAttributes = dataclasses.replace(
            i.attributes, preferred_element_type=wider_type(common, result)
        )
        factors = [editor.convert(factor, common) for factor in (lhs, rhs)]
        return editor.convert(editor.add(Opcode.DOT, factors, attributes), result)


def _dequantized(operand: HloInstruction, scale: HloInstruction, editor: Editor) -> HloInstruction:
    """The operand times its scales, in the wider of their types; a scalar means no scales."""
    if not scale.shape.rank:
        return operand
    common = wider_type(operand.shape.element_type, scale.shape.element_type)
    pairs = zip(operand.shape.dimensions, scale.shape.dimensions, strict=True)
    counts = [1 if size == blocks else size // blocks for size, blocks in pairs]
    factors = repeated(editor.convert(scale, common), counts, editor)
    return editor.add(Opcode.MULTIPLY, (editor.convert(operand, common), factors))
