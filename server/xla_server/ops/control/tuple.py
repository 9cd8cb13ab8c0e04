"""tuple and get-tuple-element (XLA's names, too): values are shared, never copied."""

from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Value, of_operands


@of_operands
def evaluate_tuple(_: HloInstruction, *operands: Value) -> Value:
    """The operands, together."""
    return operands


@of_operands
def evaluate_get_tuple_element(instruction: HloInstruction, operand: tuple[Value, ...]) -> Value:
    """One element of the operand."""
    attributes: GetTupleElementAttributes = instruction.attributes
    return operand[attributes.index]
