"""while: a body applied to a value for as long as a condition on it holds.

Semantics: XLA's While. The called computations are body and condition, in this order.
"""

from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.signature import check_predicate, check_takes, exactly
from xla_contract.types.shape import ProgramShape, Shape


def infer_while(operands: Sequence[Shape], called: Sequence[ProgramShape]) -> Shape:
    """The shape of the carried value, which body and condition must take and body must give."""
    (carried,) = operands
    body, condition = exactly(called, ("the body", "the condition"))
    check_takes("body", body, (carried,))
    check_takes("condition", condition, (carried,))
    check_predicate("condition", condition)
    if not body.result.compatible(carried):
        raise ShapeError(f"the body must give the shape it is given, got body {body} for {carried}")
    return rules.as_dynamic(carried, body.result)
