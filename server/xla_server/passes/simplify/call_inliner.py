"""Inlining of call and fusion instructions."""

from collections.abc import Collection, Sequence

from xla_contract.types.opcode import Opcode
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule, require_length
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class _Inliner(RewritePass):
    """Replaces instructions that call one computation by the instructions of that computation.

    Nested calls are inlined at once into the computations that stay, so that each instruction of
    the result is copied at most once, however deep the calls nest.
    """

    def apply(self, module: HloModule) -> bool:
        """Inline in all computations that something else than an inlined instruction calls."""
        staying = {module.entry}
        for computation in module.entry.reachable():
            for i in computation.instructions:
                if i.opcode not in self.opcodes:
                    staying.update(i.called)
        return self._rewrite(
            module, lambda part, editor: self._rule_in(part, editor) if part in staying else None
        )

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction:
        return copied(i.called[0], i.operands, editor, inlined=self.opcodes)


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
    computation: HloComputation,
    arguments: Sequence[HloInstruction],
    editor: Editor,
    *,
    inlined: Collection[Opcode] = (),
) -> HloInstruction:
    """Copy a computation's instructions, with these arguments as parameters; return the root.

    Instructions of the opcodes `inlined` are replaced by what they call.
    """
    return result_of(_copied(computation, arguments, editor, inlined))


def _copied(
    computation: HloComputation,
    arguments: Sequence[HloInstruction],
    editor: Editor,
    inlined: Collection[Opcode],
) -> Deep[HloInstruction]:
    copies = dict(zip(computation.parameters, arguments, strict=True))
    for part in computation.instructions:
        if part in copies:
            continue
        operands = [copies[operand] for operand in part.operands]
        if part.opcode in inlined:
            copies[part] = yield _copied(part.called[0], operands, editor, inlined)
        else:
            copies[part] = editor.copy(part, operands)
            copies[part].control_predecessors = tuple(
                copies[before] for before in part.control_predecessors
            )
    return copies[computation.root]
