"""opt-barrier removed once the passes that it restricts have run."""

import dataclasses

from xla_contract.opcode import Opcode
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.edit import Editor, rewrite


@dataclasses.dataclass(frozen=True)
class OptimizationBarrierExpander:
    """Replaces each opt-barrier with its operand, as later steps move nothing across it."""

    name: str = "optimization-barrier-expander"

    def apply(self, module: HloModule) -> bool:
        """Expand in every computation; return whether there was any."""

        def operand(i: HloInstruction) -> HloInstruction | None:
            return i.operands[0] if i.opcode is Opcode.OPT_BARRIER else None

        changed = False
        for computation in module.computations:
            if any(i.opcode is Opcode.OPT_BARRIER for i in computation.instructions):
                changed |= rewrite(computation, operand, Editor(module))
        return changed
