"""Loops that never turn, turn once or a few times, written without a loop."""

import dataclasses

from xla_contract.opcode import Opcode
from xla_server.ir.effects import has_side_effect
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.call_inliner import copied, drop_unused
from xla_server.passes.edit import Editor, rewrite_all
from xla_server.passes.loops import Loop, loop_of, trip_count
from xla_server.target.pass_tuning import ControlFlow
from xla_server.target.target import Target


@dataclasses.dataclass(frozen=True)
class WhileSimplifier:
    """Replaces loops of known few trips by the trips themselves."""

    target: Target
    name: str = "while-simplifier"

    def apply(self, module: HloModule) -> bool:
        """Simplify everywhere; whether anything was."""
        if not any(i.opcode is Opcode.WHILE for i in module.instructions()):
            return False
        tuning = self.target.tuning.control_flow
        changed = rewrite_all(module, lambda i, editor: _unrolled(i, editor, tuning))
        if changed:
            drop_unused(module)
        return changed


def _unrolled(i: HloInstruction, editor: Editor, tuning: ControlFlow) -> HloInstruction | None:
    loop = loop_of(i)
    if loop is None or has_side_effect(i):
        return None
    trips = trip_count(loop)
    if trips is None or (trips > 1 and not _is_small(loop, trips, tuning)):
        return None
    (state,) = i.operands
    for _ in range(trips):
        state = copied(loop.body, (state,), editor)
    return state


def _is_small(loop: Loop, trips: int, tuning: ControlFlow) -> bool:
    return (
        trips <= tuning.max_unrolled_iterations
        and trips * len(loop.body.instructions) <= tuning.max_unrolled_instructions
        # A computation that is called twice is not simplified any more.
        and not any(part.called and part.opcode in _CONTROL for part in loop.body.instructions)
    )


_CONTROL = frozenset({Opcode.WHILE, Opcode.CONDITIONAL, Opcode.CALL})
