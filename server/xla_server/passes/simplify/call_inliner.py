"""Inlining of call and fusion instructions."""

from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class _Inliner(RewritePass):
    """Replaces instructions that call one computation by the instructions of that computation."""

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction:
        # Callees come before callers, so an inlined computation has had its own calls inlined.
        return copied(i.called[0], i.operands, editor)


class CallInliner(_Inliner):
    """Inlines `call`."""

    name = "call-inliner"
    opcodes = (Opcode.CALL,)


class FusionInliner(_Inliner):
    """Inlines `fusion`: another compiler's choice, of operations that no kernel here may hold."""

    name = "fusion-inliner"
    opcodes = (Opcode.FUSION,)


MOST_INSTRUCTIONS = 1 << 19
"""Largest number of instructions of a program, those of a computation counted for each caller. A
chain of 20,000 loops has 300,000."""


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
    """Copy a computation's instructions, with these arguments as parameters; return the root."""
    copies = dict(zip(computation.parameters, arguments, strict=True))
    for part in computation.instructions:
        if part not in copies:
            copies[part] = editor.copy(part, [copies[operand] for operand in part.operands])
            copies[part].control_predecessors = tuple(
                copies[before] for before in part.control_predecessors
            )
    return copies[computation.root]
