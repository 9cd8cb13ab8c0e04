"""tuple and get-tuple-element.

Semantics: XLA's Tuple and GetTupleElement; values are shared, never copied.
"""

from collections.abc import Sequence

from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_tuple(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The operands, together."""
    return tuple(operands)


def evaluate_get_tuple_element(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """One element of the operand."""
    attributes: GetTupleElementAttributes = instruction.attributes
    return operands[0][attributes.index]  # type: ignore[index]
