"""Transposes moved through elementwise operations to the operands, where they cancel others."""

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor, users
from xla_server.passes.framework.rewrite_pass import RewritePass, Rule

_KNOWN = frozenset({Opcode.BROADCAST, Opcode.CONSTANT, Opcode.IOTA})
"""Opcodes whose results are transposed without work at run time."""

_MAX_STEPS = 64
"""Largest number of elementwise operations that one transpose moves through."""


class TransposeMover(RewritePass):
    """Moves transposes of elementwise results to the operands of the operations.

    All arrays that these read must be transposes or known (`_KNOWN`), and no other instruction may
    read their results: then no transpose is added and the outer one disappears. XLA's reshape mover
    does the same for reshapes.
    """

    name = "transpose-mover"
    opcodes = (Opcode.TRANSPOSE,)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule:
        readers = users(computation)

        def moved(i: HloInstruction) -> HloInstruction | None:
            if i.operands[0].opcode not in ELEMENTWISE:
                return None
            inside = _operations(i, computation, readers)
            if inside is None:
                return None
            permutation = i.attributes.permutation
            new: dict[HloInstruction, HloInstruction] = {}
            for part in reversed(inside):
                for operand in part.operands:
                    if operand not in new:
                        order = permutation if operand.shape.rank else ()
                        new[operand] = editor.transpose(operand, order)
                operands = [new[operand] for operand in part.operands]
                new[part] = editor.add(part.opcode, operands, part.attributes, part.called)
            return new[i.operands[0]]

        return moved


def _operations(
    i: HloInstruction,
    computation: HloComputation,
    readers: dict[HloInstruction, list[HloInstruction]],
) -> list[HloInstruction] | None:
    """Return the operations that a transpose moves through, readers first; None if it is fixed."""
    found: dict[HloInstruction, None] = {}
    waiting = [i.operands[0]]
    unfinished: set[HloInstruction] = set()
    meets = False
    while waiting:
        part = waiting.pop()
        if part in found or not part.shape.rank or part.opcode in _KNOWN:
            continue
        if part.opcode is Opcode.TRANSPOSE:
            meets = True
            continue
        # Instructions that this pass has made are missing from `readers`.
        if part.opcode not in ELEMENTWISE or part is computation.root or part not in readers:
            return None
        if part.control_predecessors or len(found) == _MAX_STEPS:
            return None
        if not all(reader in found or reader is i for reader in readers[part]):
            # The last of its readers visits it again.
            unfinished.add(part)
            continue
        unfinished.discard(part)
        found[part] = None
        waiting += part.operands
    return list(found) if meets and not unfinished else None
