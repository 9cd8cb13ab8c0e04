"""Conditionals with a known branch, or branches too small for a jump."""

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.side_effects import has_side_effect
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import splat
from xla_server.passes.framework.rewrite_pass import TargetRewritePass
from xla_server.passes.simplify.call_inliner import copied
from xla_server.target.pass_tuning import ControlFlow

_PLAIN = ELEMENTWISE | {
    Opcode.BROADCAST,
    Opcode.CONSTANT,
    Opcode.GET_TUPLE_ELEMENT,
    Opcode.PARAMETER,
    Opcode.RESHAPE,
    Opcode.TUPLE,
}


class ConditionalSimplifier(TargetRewritePass):
    """Replaces a conditional by the known branch, or by both and a select if they are tiny."""

    name = "conditional-simplifier"
    opcodes = (Opcode.CONDITIONAL,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        tuning = self.target.tuning.control_flow
        if has_side_effect(i):
            return None
        choice = splat(i.operands[0])
        if choice is not None:
            number = _chosen(choice, i.operands[0].shape.element_type, len(i.called))
        elif len(set(zip(i.called, i.operands[1:], strict=True))) == 1:
            number = 0
        else:
            parts = i.shape.parts
            is_flat = all(part.is_array for part in parts)
            is_tiny = len(i.called) == 2 and all(_is_tiny(part, tuning) for part in i.called)
            return _selected(i, editor) if is_tiny and is_flat else None
        return copied(i.called[number], (i.operands[1 + number],), editor)


def _chosen(choice: object, kind: ElementType, branches: int) -> int:
    if kind is ElementType.PRED:
        return 0 if choice else 1
    number = int(choice)  # type: ignore[call-overload]
    return number if 0 <= number < branches else branches - 1


def _is_tiny(branch: HloComputation, tuning: ControlFlow) -> bool:
    most = tuning.max_branch_elements
    return len(branch.instructions) <= tuning.max_branch_instructions and all(
        i.opcode in _PLAIN
        and (
            i.opcode is Opcode.PARAMETER
            or all(leaf.element_count <= most for leaf in i.shape.leaves())
        )
        for i in branch.instructions
    )


def _selected(i: HloInstruction, editor: Editor) -> HloInstruction:
    predicate = i.operands[0]
    if predicate.shape.element_type is not ElementType.PRED:
        # Index 0 is the first branch; any other, out of range too, is the last.
        zero = editor.constant(0, predicate.shape.element_type)
        predicate = editor.compare(predicate, zero, ComparisonDirection.EQ)
    results = [
        editor.elements(copied(branch, (operand,), editor))
        for branch, operand in zip(i.called, i.operands[1:], strict=True)
    ]
    parts = [editor.add(Opcode.SELECT, (predicate, *pair)) for pair in zip(*results, strict=True)]
    return editor.results_as(i, parts)
