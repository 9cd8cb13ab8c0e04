"""Instructions replaced by simpler ones that give the same bits: THE table of rules."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.ops.elementwise_table import ELEMENTWISE
from xla_server.passes.edit import Editor, rewrite_all
from xla_server.passes.rules_arithmetic import ARITHMETIC_RULES, Rule, hoist_broadcast
from xla_server.passes.rules_shapes import SHAPE_RULES
from xla_server.passes.rules_slices import SLICE_RULES

_OF_ELEMENTWISE = {
    opcode: (*ARITHMETIC_RULES.get(opcode, ()), hoist_broadcast) for opcode in ELEMENTWISE
}

RULES: Mapping[Opcode, tuple[Rule, ...]] = MappingProxyType(
    {**_OF_ELEMENTWISE, **SHAPE_RULES, **SLICE_RULES}
)
"""What is tried for each opcode, in order."""

_MOST_STEPS = 8


@dataclasses.dataclass(frozen=True)
class AlgebraicSimplifier:
    """Applies the rules of the table to every instruction until none of them fires on it."""

    name: str = "algsimp"

    def apply(self, module: HloModule) -> bool:
        """Simplify everywhere; whether anything was."""
        return rewrite_all(module, _simplified)


def _simplified(instruction: HloInstruction, editor: Editor) -> HloInstruction:
    for _ in range(_MOST_STEPS):
        new = _step(instruction, editor)
        if new is None or new is instruction:
            break
        instruction = new
    return instruction


def _step(instruction: HloInstruction, editor: Editor) -> HloInstruction | None:
    for rule in RULES.get(instruction.opcode, ()):
        new = rule(instruction, editor)
        if new is not None and new is not instruction:
            return new
    return None
