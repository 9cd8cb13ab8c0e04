"""Reductions of a concatenation along its dimension, done on the operands."""

from collections.abc import Sequence

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.passes.framework.editor import Editor, users
from xla_server.passes.framework.queries import combiner, neutral_of
from xla_server.passes.framework.rewrite_pass import Rule, TargetRewritePass
from xla_server.passes.reductions.stacked_elements import needs_parts
from xla_server.passes.simplify.lifting import applied


class ConcatenateReduction(TargetRewritePass):
    """Reduces the operands of a concatenation instead of the concatenation.

    Operands of equal shape are combined element by element, as a balanced tree, and the result is
    reduced. The operation must allow any order, and only reductions along the dimension and slices
    of one part may read the concatenation, which then need not exist. A loop over the concatenation
    would test for each element to which operand it belongs. Each distinct shape makes a reduction
    of its own, so their number is limited.
    """

    name = "concatenate-reduction"
    opcodes = (Opcode.REDUCE,)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule:
        readers, tuning = users(computation), self.target.tuning.reductions

        def combined(i: HloInstruction) -> HloInstruction | None:
            whole = i.operands[0]
            if len(i.operands) != 2 or whole.opcode is not Opcode.CONCATENATE:
                return None
            # An instruction that this pass has made has no users on record.
            found = () if whole is computation.root else readers.get(whole, ())
            if not found or not all(needs_parts(reader, whole, whole) for reader in found):
                return None
            shapes = {part.shape.dimensions for part in whole.operands}
            if len(whole.operands) > tuning.max_concatenated_operands:
                return None
            is_split = len(shapes) <= tuning.max_split_reductions
            return _combined(i, whole, editor) if is_split else None

        return combined


def _combined(i: HloInstruction, whole: HloInstruction, editor: Editor) -> HloInstruction | None:
    """The reduction `i` of a concatenation `whole`."""
    along, reduced = whole.attributes.dimension, sorted(i.attributes.dimensions)
    (computation,), initial = i.called, i.operands[1]
    kind, opcode = i.shape.element_type, combiner(computation)
    types = {whole.shape.element_type, initial.shape.element_type}
    neutral = neutral_of(opcode, kind)
    if opcode is None or neutral is None or along not in reduced or types != {kind}:
        return None
    results = []
    alike: dict[tuple[int, ...], list[HloInstruction]] = {}
    for part in whole.operands:
        alike.setdefault(part.shape.dimensions, []).append(part)
    for group in alike.values():
        joined = _tree(group, opcode, editor)
        sizes = [size for d, size in enumerate(joined.shape.dimensions) if d not in reduced]
        if reduced == [along] and joined.shape.dimensions[along] == 1:
            results.append(editor.reshape(joined, sizes))
        else:
            start = editor.constant(neutral, kind)
            results.append(editor.reduce(joined, start, reduced, computation))
    total = _tree(results, opcode, editor)
    return applied(computation, (initial, total), i.shape.dimensions, editor)


def _tree(parts: Sequence[HloInstruction], opcode: Opcode, editor: Editor) -> HloInstruction:
    """All parts, of one shape, combined as a balanced binary tree."""
    while len(parts) > 1:
        pairs = [editor.add(opcode, parts[n : n + 2]) for n in range(0, len(parts) - 1, 2)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]
