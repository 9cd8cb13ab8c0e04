"""The algebraic simplifier: the table of rules that replace instructions, bit for bit."""

from collections.abc import Mapping

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import EditorRule, RewritePass
from xla_server.passes.simplify.rules.arithmetic import ARITHMETIC_RULES
from xla_server.passes.simplify.rules.repeats import hoist_repeats
from xla_server.passes.simplify.rules.shapes import SHAPE_RULES
from xla_server.passes.simplify.rules.slices import SLICE_RULES

_OF_ELEMENTWISE = {
    opcode: (*ARITHMETIC_RULES.get(opcode, ()), hoist_repeats) for opcode in ELEMENTWISE
}

RULES: Mapping[Opcode, tuple[EditorRule, ...]] = {**_OF_ELEMENTWISE, **SHAPE_RULES, **SLICE_RULES}
"""Rules by opcode, in the order in which they are tried."""

_MAX_STEPS = 8
"""Largest number of rules applied to one instruction in a row, in case rules undo each other."""


class AlgebraicSimplifier(RewritePass):
    """Applies the rules of the table to every instruction until none of them fires on it."""

    name = "algsimp"
    opcodes = RULES.keys()

    def _rule(self, instruction: HloInstruction, editor: Editor) -> HloInstruction | None:
        for _ in range(_MAX_STEPS):
            made = (rule(instruction, editor) for rule in RULES.get(instruction.opcode, ()))
            new = next((each for each in made if each not in (None, instruction)), None)
            if new is None:
                break
            instruction = new
        return instruction
