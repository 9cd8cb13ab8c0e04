"""get-tuple-element of a tuple is the element."""

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class TupleSimplifier(RewritePass):
    """Replaces elements of tuples by the tuples' operands, so that unneeded tuples are dropped."""

    name = "tuple-simplifier"
    opcodes = (Opcode.GET_TUPLE_ELEMENT,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        (packed,) = i.operands
        return packed.operands[i.attributes.index] if packed.opcode is Opcode.TUPLE else None
