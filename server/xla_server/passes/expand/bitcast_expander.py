"""bitcast in terms of operations on logical arrays."""

from xla_contract.ops.elementwise.bitcast_convert import BitcastConvertAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.passes.framework.editor import Editor, inverse_permutation
from xla_server.passes.framework.rewrite_pass import RewritePass, Rule


class BitcastExpander(RewritePass):
    """Replaces bitcast by transposes, reshape and bitcast-convert, before passes drop layouts."""

    name = "bitcast-expander"
    opcodes = (Opcode.BITCAST,)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule:
        # Replacements carry no layouts, so the operands' are collected first.
        sources = {
            i: i.operands[0].shape for i in computation.instructions if i.opcode is Opcode.BITCAST
        }
        return lambda i: _expanded(i, sources[i], editor)


def _expanded(i: HloInstruction, source: Shape, editor: Editor) -> HloInstruction | None:
    target = i.shape
    if not _is_plain(source) or not _is_plain(target):
        return None
    before, after = source.element_type, target.element_type
    if before is not after and min(before.bit_width, after.bit_width) < 8:
        # Narrow elements take a byte each in memory, but a bitcast-convert packs them.
        return None
    memory = editor.transpose(i.operands[0], source.layout_or_default.major_to_minor)
    if before is not after:
        ratio = after.bit_width // before.bit_width
        if ratio > 1:
            memory = editor.reshape(memory, (source.element_count // ratio, ratio))
        attributes = BitcastConvertAttributes(after)
        memory = editor.add(Opcode.BITCAST_CONVERT, (memory,), attributes)
    order = target.layout_or_default.major_to_minor
    physical = editor.reshape(memory, [target.dimensions[d] for d in order])
    return editor.transpose(physical, inverse_permutation(order))


def _is_plain(shape: Shape) -> bool:
    layout = shape.layout_or_default
    return not layout.is_padded and not layout.tiles
