"""Removal of loops with no iteration, one, or a few."""

from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.side_effects import has_side_effect
from xla_server.ir.module import SEQUENTIAL_CALLERS, HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import TargetRewritePass
from xla_server.passes.loops.while_analysis import WhileLoop, loop_of, trip_count
from xla_server.passes.simplify.call_inliner import copied
from xla_server.target.pass_tuning import ControlFlow


class WhileSimplifier(TargetRewritePass):
    """Unrolls loops with a known small number of iterations."""

    name = "while-simplifier"
    opcodes = (Opcode.WHILE,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        loop = loop_of(i)
        if loop is None or has_side_effect(i):
            return None
        iterations = trip_count(loop)
        if iterations is None or (
            iterations > 1 and not _is_small(loop, iterations, self.target.tuning.control_flow)
        ):
            return None
        (state,) = i.operands
        for _ in range(iterations):
            state = copied(loop.body, (state,), editor)
        return state


def _is_small(loop: WhileLoop, iterations: int, tuning: ControlFlow) -> bool:
    return (
        iterations <= tuning.max_unrolled_iterations
        and iterations * len(loop.body.instructions) <= tuning.max_unrolled_instructions
        # Copies would call the inner computations twice, which ends their simplification.
        and not any(part.opcode in SEQUENTIAL_CALLERS for part in loop.body.instructions)
    )
