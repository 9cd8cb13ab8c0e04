"""call: a computation applied to operands. Semantics: XLA's Call."""

from collections.abc import Sequence

from xla_contract.ops.signature import check_takes, exactly
from xla_contract.types.shape import ProgramShape, Shape


def infer_call(operands: Sequence[Shape], called: Sequence[ProgramShape]) -> Shape:
    """The shape the computation gives; ShapeError when it does not take the operands."""
    (computation,) = exactly(called, ("the computation",))
    check_takes("computation", computation, operands)
    return computation.result.without_layout()
