"""call and fusion instructions replaced by what they call."""

from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class _Inliner(RewritePass):
    """Replaces instructions that call one computation by the instructions of that computation."""

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction:
        # Callees come before callers, so what is inlined has been treated itself.
        return copied(i.called[0], i.operands, editor)


class CallInliner(_Inliner):
    """Inlines `call`."""

    name = "call-inliner"
    opcodes = (Opcode.CALL,)


class FusionInliner(_Inliner):
    """Inlines `fusion`: another compiler's partition, of operations that no kernel may hold."""

    name = "fusion-inliner"
    opcodes = (Opcode.FUSION,)


MOST_INSTRUCTIONS = 1 << 19
"""Most instructions of a program, those of a called computation counted for each of its callers.
A chain of 20,000 loops has 300,000."""


def require_inlinable(module: HloModule) -> None:
    """Raise ResourceExhaustedError for a program that is too long once its calls are inlined."""
    lengths: dict[HloComputation, int] = {}
    for computation in module.computations:
        lengths[computation] = len(computation.instructions) + sum(
            lengths[called] for part in computation.instructions for called in part.called
        )
    if lengths[module.entry] > MOST_INSTRUCTIONS:
        raise ResourceExhaustedError(
            f"a program must have at most {MOST_INSTRUCTIONS} instructions with its calls inlined, "
            f"got {lengths[module.entry]}"
        )


def copied(
    computation: HloComputation, arguments: "tuple[HloInstruction, ...]", editor: Editor
) -> HloInstruction:
    """The root of a copy of a computation's instructions that reads these arguments."""
    copies = dict(zip(computation.parameters, arguments, strict=True))
    for part in computation.instructions:
        if part not in copies:
            copies[part] = editor.copy(part, [copies[operand] for operand in part.operands])
            copies[part].control_predecessors = tuple(
                copies[before] for before in part.control_predecessors
            )
    return copies[computation.root]
