"""Shape rules of operations in two halves, which pass a pair (operands, result) between them.

Semantics: XLA's AllGatherStart and Done, CollectivePermuteStart and Done, CopyStart and Done.
"""

from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.types.shape import Shape


def element_of_start(operands: Sequence[Shape], index: int) -> Shape:
    """An element of the only operand; ShapeError unless that is a tuple of two or more."""
    (start,) = operands
    if len(start.tuple_shapes) < 2:
        raise ShapeError(f"the operand must be the first half's tuple of at least 2, got {start}")
    return start.tuple_shapes[index].without_layout()
