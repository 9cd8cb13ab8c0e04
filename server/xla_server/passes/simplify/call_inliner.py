"""Inlining of call and fusion instructions."""

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction, HloModule, require_length
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


def require_inlinable(module: HloModule) -> None:
    """Raise ResourceExhaustedError for a program that is too long once its calls are inlined."""
    lengths: dict[HloComputation, int] = {}
    for computation in module.computations:
        lengths[computation] = len(computation.instructions) + sum(
            lengths[called] for part in computation.instructions for called in part.called
        )
    require_length(lengths[module.entry], " with its calls inlined")


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
