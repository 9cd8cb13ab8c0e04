"""opt-barrier removed once the passes that it restricts have run."""

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class OptimizationBarrierExpander(RewritePass):
    """Replaces each opt-barrier with its operand, as later steps move nothing across it."""

    name = "optimization-barrier-expander"
    opcodes = (Opcode.OPT_BARRIER,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction:
        return i.operands[0]
