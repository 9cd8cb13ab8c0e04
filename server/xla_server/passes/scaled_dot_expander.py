"""scaled-dot in terms of multiplications by the scales and a dot."""

import dataclasses

from xla_contract.opcode import Opcode
from xla_contract.ops.dot import DotAttributes
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.ops.scaled_dot import wider_type
from xla_server.passes.build import broadcast, convert, reshape
from xla_server.passes.edit import Editor, rewrite_all


@dataclasses.dataclass(frozen=True)
class ScaledDotExpander:
    """Writes scaled dots as dots of operands that are multiplied by their scales."""

    name: str = "scaled-dot-expander"

    def apply(self, module: HloModule) -> bool:
        """Expand everywhere; whether anything was."""
        if not any(i.opcode is Opcode.SCALED_DOT for i in module.instructions()):
            return False
        return rewrite_all(module, _expanded)


def _expanded(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    if i.opcode is not Opcode.SCALED_DOT:
        return None
    lhs = _dequantized(i.operands[0], i.operands[2], editor)
    rhs = _dequantized(i.operands[1], i.operands[3], editor)
    common = wider_type(lhs.shape.element_type, rhs.shape.element_type)
    result = i.shape.element_type
    attributes: DotAttributes = dataclasses.replace(
        i.attributes, preferred_element_type=wider_type(common, result)
    )
    factors = [convert(editor, factor, common) for factor in (lhs, rhs)]
    return convert(editor, editor.add(Opcode.DOT, factors, attributes), result)


def _dequantized(operand: HloInstruction, scale: HloInstruction, editor: Editor) -> HloInstruction:
    """The operand times its scales, in the wider of their types; a scalar stands for none."""
    if not scale.shape.rank:
        return operand
    common = wider_type(operand.shape.element_type, scale.shape.element_type)
    sizes, mapped = list[int](), list[int]()
    for size, blocks in zip(operand.shape.dimensions, scale.shape.dimensions, strict=True):
        mapped.append(len(sizes))
        sizes += [size] if size == blocks else [blocks, size // blocks]
    repeated = broadcast(editor, convert(editor, scale, common), mapped, sizes)
    factors = reshape(editor, repeated, operand.shape.dimensions)
    return editor.add(Opcode.MULTIPLY, (convert(editor, operand, common), factors))
