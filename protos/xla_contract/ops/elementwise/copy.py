"""copy: the operand's value again, in whatever layout the result says.

Semantics: XLA's kCopy.
"""

from collections.abc import Sequence

from xla_contract.ops.definition import without_attributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def infer_copy(operands: Sequence[Shape]) -> Shape:
    """The operand's shape, whatever it is."""
    return operands[0].without_layout()


DEFINITION = without_attributes(Opcode.COPY, infer_copy)
