"""constant (XLA's kConstant): a value of the program."""

from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.types.literal import Literal
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Value, of_operands


@of_operands
def evaluate_constant(instruction: HloInstruction) -> Value:
    """The literal's value."""
    attributes: ConstantAttributes = instruction.attributes
    return value_of(attributes.literal)


def value_of(literal: Literal) -> Value:
    """Return an evaluator's operand for a literal; shares its memory."""
    if literal.shape.is_tuple:
        return tuple(map(value_of, literal.elements))
    return literal.actual if literal.shape.is_array else TOKEN
