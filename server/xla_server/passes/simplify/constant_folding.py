"""Operations on constants are evaluated when the program is compiled."""

import math

from xla_contract.errors import XlaError
from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass

LARGEST_RESULT = 1 << 16
"""Size in bytes up to which a result may be larger than its operands: programs store it."""

MAX_TOUCHED_ELEMENTS = 1 << 20
"""Largest number of elements that evaluating one instruction at compile time may touch."""

FOLDED = ELEMENTWISE | {
    Opcode.BITCAST_CONVERT,
    Opcode.CONCATENATE,
    Opcode.DOT,
    Opcode.DYNAMIC_SLICE,
    Opcode.DYNAMIC_UPDATE_SLICE,
    Opcode.GATHER,
    Opcode.PAD,
    Opcode.REDUCE,
    Opcode.RESHAPE,
    Opcode.REVERSE,
    Opcode.SLICE,
    Opcode.SORT,
    Opcode.TRANSPOSE,
}
"""Operations that are evaluated. Broadcast and iota are smaller as they are than as constants."""


def constants_of(computation: HloComputation) -> set[HloInstruction]:
    """Return the constants of a computation, and the instructions that become constants."""
    found: set[HloInstruction] = set()
    for i in computation.instructions:
        if i.opcode is Opcode.CONSTANT or (i.opcode in FOLDED and found.issuperset(i.operands)):
            found.add(i)
    return found


class ConstantFolding(RewritePass):
    """Replaces small operations all of whose operands are constants by their results."""

    name = "constant-folding"
    opcodes = FOLDED

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if not i.operands or not i.shape.is_array:
            return None
        if any(operand.opcode is not Opcode.CONSTANT for operand in i.operands):
            return None
        bytes_in = sum(operand.shape.byte_size for operand in i.operands)
        if i.shape.byte_size > max(LARGEST_RESULT, bytes_in) or _touched(i) > MAX_TOUCHED_ELEMENTS:
            return None
        alone = HloComputation("folded", 0, [*dict.fromkeys(i.operands), i], i, ())
        try:
            value = evaluate(alone, [])
        except XlaError:
            return None
        literal = Literal.from_numpy(value, i.shape.without_layout())
        return editor.add(Opcode.CONSTANT, (), ConstantAttributes(literal))


def _touched(i: HloInstruction) -> int:
    """Return the number of elements that the evaluator touches, a measure of compile time."""
    largest = max(part.shape.element_count for part in (i, *i.operands))
    if i.opcode is Opcode.DOT:
        contracted = i.attributes.dimension_numbers.lhs_contracting_dimensions
        depth: int = math.prod(i.operands[0].shape.dimensions[d] for d in contracted)
        return largest * depth
    return largest * sum(len(called.instructions) for called in i.called) if i.called else largest
