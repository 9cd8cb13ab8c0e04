"""ragged-dot in terms of one dot for each group, in which elements of other groups are masked."""

from collections.abc import Sequence

from xla_contract.ops.contraction.ragged_dot import RaggedMode
from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class RaggedDotExpander(RewritePass):
    """Writes ragged dots as dense ones, with zeros outside the groups."""

    name = "ragged-dot-expander"
    opcodes = (Opcode.RAGGED_DOT,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        lhs, rhs, _ = i.operands
        if i.attributes.mode is RaggedMode.BATCH:
            return editor.dot(i, lhs, rhs, i.attributes.dimension_numbers)
        if not i.shape.element_count:
            return editor.zeros(i.shape)
        work = _Ragged(i, editor)
        return work.stacked() if i.attributes.mode is RaggedMode.CONTRACTING else work.selected()


class _Ragged:
    """Expansion of one ragged dot."""

    def __init__(self, i: HloInstruction, editor: Editor) -> None:
        self._i, self._editor = i, editor
        self._lhs, self._rhs, sizes = i.operands
        self._sizes = editor.convert(sizes, ElementType.S64)
        self._groups = sizes.shape.dimensions[-1]
        self._cut = i.attributes.cut(self._lhs.shape.rank)

    def selected(self) -> HloInstruction:
        """Groups of rows, each times its own matrix."""
        attributes = self._i.attributes
        dimensions = attributes.cut_of_result(self._lhs.shape.rank)
        result = self._editor.zeros(self._i.shape)
        for group, members in enumerate(self._members()):
            own = self._editor.at(self._rhs, group, attributes.rhs_group_dimension)
            found = self._editor.dot(self._i, self._lhs, own, attributes.numbers_of_group)
            mask = self._editor.broadcast(members, dimensions, self._i.shape.dimensions)
            result = self._editor.add(Opcode.SELECT, (mask, found, result))
        return result

    def stacked(self) -> HloInstruction:
        """A product for each group's part of the contracted dimension."""
        there = self._i.attributes.cut_of_rhs(self._lhs.shape.rank)
        parts = []
        for members in self._members():
            lhs = self._masked(self._lhs, members, self._cut)
            rhs = self._masked(self._rhs, members, there)
            product = self._editor.dot(self._i, lhs, rhs, self._i.attributes.dimension_numbers)
            parts.append(self._editor.reshape(product, (1, *product.shape.dimensions)))
        return self._editor.concatenate(parts, 0)

    def _members(self) -> list[HloInstruction]:
        """Return, for each group and position of the ragged dimension, whether the group has it."""
        editor, sizes = self._editor, [self._lhs.shape.dimensions[d] for d in self._cut]
        positions = editor.iota(ElementType.S64, sizes, len(sizes) - 1)
        prefix = self._sizes.shape.dimensions[:-1]
        stop = editor.full(0, ElementType.S64, prefix)
        found = []
        for group in range(self._groups):
            own = editor.at(self._sizes, group, len(prefix))
            start, stop = stop, editor.add(Opcode.ADD, (stop, own))
            first, end = (
                editor.broadcast(each, range(len(prefix)), sizes) for each in (start, stop)
            )
            is_behind = editor.compare(positions, first, ComparisonDirection.GE)
            is_before = editor.compare(positions, end, ComparisonDirection.LT)
            found.append(editor.add(Opcode.AND, (is_behind, is_before)))
        return found

    def _masked(
        self, operand: HloInstruction, members: HloInstruction, dimensions: Sequence[int]
    ) -> HloInstruction:
        mask = self._editor.broadcast(members, dimensions, operand.shape.dimensions)
        nothing = self._editor.full(0, operand.shape.element_type, operand.shape.dimensions)
        return self._editor.add(Opcode.SELECT, (mask, operand, nothing))
