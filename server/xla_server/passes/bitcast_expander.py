"""bitcast in terms of the logical arrays it reads and gives."""

import dataclasses

import numpy as np

from xla_contract.opcode import Opcode
from xla_contract.ops.bitcast_convert import BitcastConvertAttributes
from xla_contract.shape import Shape
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.build import reshape, transpose
from xla_server.passes.edit import Editor, rewrite_all


@dataclasses.dataclass(frozen=True)
class BitcastExpander:
    """Replaces bitcast by transposes, reshape and bitcast-convert.

    It stands before everything else: afterwards no instruction means anything by its layout.
    """

    name: str = "bitcast-expander"

    def apply(self, module: HloModule) -> bool:
        """Expand everywhere; whether there was any bitcast."""
        # Replacements carry no layouts, so those that are read are noted first.
        sources = {
            i: i.operands[0].shape for i in module.instructions() if i.opcode is Opcode.BITCAST
        }
        if not sources:
            return False
        return rewrite_all(module, lambda i, editor: _expanded(i, sources, editor))


def _expanded(
    i: HloInstruction, sources: dict[HloInstruction, Shape], editor: Editor
) -> HloInstruction | None:
    if i not in sources:
        return None
    source, target = sources[i], i.shape
    if not _is_plain(source) or not _is_plain(target):
        return None
    before, after = source.element_type, target.element_type
    if before is not after and min(before.bit_width, after.bit_width) < 8:
        # Narrow elements lie in a byte each in memory, but a bitcast-convert packs them.
        return None
    memory = transpose(editor, i.operands[0], source.layout_or_default.major_to_minor)
    if before is not after:
        ratio = after.bit_width // before.bit_width
        if ratio > 1:
            memory = reshape(editor, memory, (source.element_count // ratio, ratio))
        attributes = BitcastConvertAttributes(after)
        memory = editor.add(Opcode.BITCAST_CONVERT, (memory,), attributes)
    order = target.layout_or_default.major_to_minor
    physical = reshape(editor, memory, [target.dimensions[d] for d in order])
    return transpose(editor, physical, [int(d) for d in np.argsort(order)])


def _is_plain(shape: Shape) -> bool:
    layout = shape.layout_or_default
    return not layout.is_padded and not layout.tiles
