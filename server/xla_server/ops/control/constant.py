"""constant (XLA's kConstant): a value of the program."""

from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.types.literal import Literal
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Value, of_operands


@of_operands
def evaluate_constant(instruction: HloInstruction) -> Value:
    """The literal's value."""
    attributes: ConstantAttributes = instruction.attributes
    return _value(attributes.literal)


def _value(literal: Literal) -> Value:
    if literal.shape.is_tuple:
        return tuple(map(_value, literal.elements))
    return TOKEN if literal.shape.is_token else literal.actual
