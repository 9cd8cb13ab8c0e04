"""Expansion of custom calls that have HLO operations: TopK, ApproxTopK, AllocateBuffer, markers."""

from xla_contract.errors import XlaError
from xla_contract.ops.indexing.sort import SortAttributes
from xla_contract.ops.indexing.topk import TopKAttributes
from xla_contract.types.opcode import Opcode
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.targets import (
    allocate_buffer,
    approximate_topk,
    partitioning_markers,
)
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass

_EXPANDED = frozenset(
    {
        "TopK",
        allocate_buffer.TARGET.name,
        approximate_topk.TARGET.name,
        *partitioning_markers.NAMES,
    }
)


class CustomCallExpander(RewritePass):
    """Expands calls to topk, a sort, zeros or the marked value; lowering reports invalid ones."""

    name = "custom-call-expander"
    opcodes = (Opcode.CUSTOM_CALL,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if i.attributes.target not in _EXPANDED:
            return None
        try:
            BUILTIN.resolve(i)
        except XlaError:
            return None
        if i.attributes.target in partitioning_markers.NAMES:
            return i.operands[0]
        if i.attributes.target == allocate_buffer.TARGET.name:
            return editor.zeros(i.shape)
        if i.attributes.target == "TopK":
            count = i.shape.tuple_shapes[0].dimensions[-1]
            return editor.add(Opcode.TOPK, i.operands, TopKAttributes(count))
        return _first(i, editor)


def _first(i: HloInstruction, editor: Editor) -> HloInstruction:
    """Return the top elements of the arrays, the first half of the operands, by the comparator."""
    attributes = SortAttributes(approximate_topk.reduction_dimension(i), is_stable=True)
    ordered = editor.add(Opcode.SORT, i.operands[: len(i.operands) // 2], attributes, i.called)
    limits = i.shape.tuple_shapes[0].dimensions
    parts = [editor.sliced(array, (0,) * len(limits), limits) for array in editor.elements(ordered)]
    return editor.add(Opcode.TUPLE, parts)
