"""Comparisons of a relu's operand with 0, as comparisons of the relu's result."""

from collections.abc import Mapping

from xla_contract.ops.elementwise.compare import ComparisonDirection, ComparisonType
from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.gelu import constant_of
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass, Rule


class ActivationMasks(RewritePass):
    """Replaces x > 0 by maximum(x, 0) > 0 where the program has that maximum.

    Both are false if x is NaN. A product's epilogue may then end with the maximum, and x is not
    stored.
    """

    name = "activation-masks"
    opcodes = (Opcode.COMPARE,)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule | None:
        found = _maxima(computation)

        def compared(i: HloInstruction) -> HloInstruction | None:
            (of, zero), a = i.operands, i.attributes
            is_greater = a.direction is ComparisonDirection.GT and of in found
            if not is_greater or a.type is ComparisonType.TOTALORDER or constant_of(zero) != 0:
                return None
            return editor.add(Opcode.COMPARE, (found[of], zero), a)

        return compared if found else None


def _maxima(computation: HloComputation) -> Mapping[HloInstruction, HloInstruction]:
    """Return the maximum of an array and 0, by the array."""
    return {
        of: i
        for i in computation.instructions
        if i.opcode is Opcode.MAXIMUM
        for of, other in (i.operands, i.operands[::-1])
        if constant_of(other) == 0
    }
