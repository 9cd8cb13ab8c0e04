"""Comparisons, giving pred arrays. Semantics: XLA's Compare.

They are functions and not operators: `==`, `<` and their kin are answered by Python at once,
with one bool, where a program needs an array that is known when it runs.
"""

from collections.abc import Sequence

from xla_client.builder import Op, elementwise
from xla_client.scalars import Scalar
from xla_contract.opcode import Opcode
from xla_contract.ops.compare import CompareAttributes, ComparisonDirection, ComparisonType


def compare(
    lhs: Op | Scalar,
    rhs: Op | Scalar,
    direction: ComparisonDirection,
    broadcast_dimensions: Sequence[int] | None = None,
    comparison_type: ComparisonType | None = None,
) -> Op:
    """Compare elementwise; without `comparison_type` as the element type suggests.

    Raises ShapeError for operands that do not fit each other or the comparison.
    """
    attributes = CompareAttributes(ComparisonDirection(direction), comparison_type)
    return elementwise(Opcode.COMPARE, lhs, rhs, broadcast_dimensions, attributes)


def eq(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None) -> Op:
    """Whether lhs is rhs."""
    return compare(lhs, rhs, ComparisonDirection.EQ, broadcast_dimensions)


def ne(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None) -> Op:
    """Whether lhs is not rhs."""
    return compare(lhs, rhs, ComparisonDirection.NE, broadcast_dimensions)


def ge(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None) -> Op:
    """Whether lhs is at least rhs."""
    return compare(lhs, rhs, ComparisonDirection.GE, broadcast_dimensions)


def gt(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None) -> Op:
    """Whether lhs is more than rhs."""
    return compare(lhs, rhs, ComparisonDirection.GT, broadcast_dimensions)


def le(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None) -> Op:
    """Whether lhs is at most rhs."""
    return compare(lhs, rhs, ComparisonDirection.LE, broadcast_dimensions)


def lt(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None) -> Op:
    """Whether lhs is less than rhs."""
    return compare(lhs, rhs, ComparisonDirection.LT, broadcast_dimensions)


def eq_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None
) -> Op:
    """Like `eq` in the order -NaN < -inf < -0 < +0 < inf < NaN."""
    return _total(lhs, rhs, ComparisonDirection.EQ, broadcast_dimensions)


def ne_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None
) -> Op:
    """Like `ne` in the order -NaN < -inf < -0 < +0 < inf < NaN."""
    return _total(lhs, rhs, ComparisonDirection.NE, broadcast_dimensions)


def ge_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None
) -> Op:
    """Like `ge` in the order -NaN < -inf < -0 < +0 < inf < NaN."""
    return _total(lhs, rhs, ComparisonDirection.GE, broadcast_dimensions)


def gt_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None
) -> Op:
    """Like `gt` in the order -NaN < -inf < -0 < +0 < inf < NaN."""
    return _total(lhs, rhs, ComparisonDirection.GT, broadcast_dimensions)


def le_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None
) -> Op:
    """Like `le` in the order -NaN < -inf < -0 < +0 < inf < NaN."""
    return _total(lhs, rhs, ComparisonDirection.LE, broadcast_dimensions)


def lt_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None
) -> Op:
    """Like `lt` in the order -NaN < -inf < -0 < +0 < inf < NaN."""
    return _total(lhs, rhs, ComparisonDirection.LT, broadcast_dimensions)


def _total(
    lhs: Op | Scalar,
    rhs: Op | Scalar,
    direction: ComparisonDirection,
    broadcast_dimensions: Sequence[int] | None,
) -> Op:
    total = ComparisonType.TOTALORDER
    return compare(lhs, rhs, direction, broadcast_dimensions, total)
