"""copy-start and copy-done: a copy in two steps.

Semantics: XLA's kCopyStart and kCopyDone. The value between them is (copy, operand, u32[]).
"""

from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.collectives.async_pairs import element_of_start
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


def infer_copy_start(operands: Sequence[Shape]) -> Shape:
    """The copy, the operand and a context."""
    operand = operands[0].without_layout()
    return Shape.tuple_of([operand, operand, Shape.scalar(ElementType.U32)])


def infer_copy_done(operands: Sequence[Shape]) -> Shape:
    """The first element of the first half's result."""
    copied = element_of_start(operands, 0)
    original = operands[0].tuple_shapes[1].without_layout()
    if not copied.compatible(original):
        raise ShapeError(f"copy and original must have one shape, got {copied} and {original}")
    return copied
