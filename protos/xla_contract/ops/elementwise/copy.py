"""copy: the operand's value again, in the layout that the result states.

Semantics: XLA's kCopy.
"""

from collections.abc import Sequence

from xla_contract.types.shape import Shape


def infer_copy(operands: Sequence[Shape]) -> Shape:
    """The operand's shape, whatever it is."""
    return operands[0].without_layout()
