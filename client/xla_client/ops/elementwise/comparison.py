"""Comparisons, giving pred arrays. Semantics: XLA's Compare.

They are functions and not operators: `==`, `<` and their kin are answered by Python at once,
with one bool, where a program needs an array that is known when it runs. Ops have them as methods
(`x.lt(y)`), and their operators raise.
"""

from xla_client.coercion.records import choice
from xla_client.programs.builder import Dimensions, Op
from xla_client.programs.checked import Choice, checked
from xla_client.programs.elementwise import elementwise
from xla_client.programs.scalars import Scalar
from xla_contract.ops.elementwise.compare import (
    CompareAttributes,
    ComparisonDirection,
    ComparisonType,
)
from xla_contract.types.opcode import Opcode


@checked
def compare(
    lhs: Op | Scalar,
    rhs: Op | Scalar,
    direction: ComparisonDirection | Choice,
    broadcast_dimensions: Dimensions | None = None,
    comparison_type: ComparisonType | Choice | None = None,
) -> Op:
    """Compare elementwise; without `comparison_type` as the element type suggests.

    Raises ShapeError for operands that do not fit each other or the comparison.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        direction: "eq", "ne", "ge", "gt", "le" or "lt".
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.
        comparison_type: "float", "totalorder", "signed" or "unsigned"; by default that of the
            element type.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.compare(x, 0.0, "lt")
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    order = None
    if comparison_type is not None:
        order = choice(ComparisonType, "comparison_type", comparison_type)
    attributes = CompareAttributes(choice(ComparisonDirection, "direction", direction), order)
    return elementwise(Opcode.COMPARE, lhs, rhs, broadcast_dimensions, attributes)


@checked
def eq(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None) -> Op:
    """Return where lhs == rhs, as pred.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.eq(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return compare(lhs, rhs, ComparisonDirection.EQ, broadcast_dimensions)


@checked
def ne(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None) -> Op:
    """Return where lhs != rhs, as pred.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.ne(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return compare(lhs, rhs, ComparisonDirection.NE, broadcast_dimensions)


@checked
def ge(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None) -> Op:
    """Return where lhs >= rhs, as pred.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.ge(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return compare(lhs, rhs, ComparisonDirection.GE, broadcast_dimensions)


@checked
def gt(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None) -> Op:
    """Return where lhs > rhs, as pred.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.gt(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return compare(lhs, rhs, ComparisonDirection.GT, broadcast_dimensions)


@checked
def le(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None) -> Op:
    """Return where lhs <= rhs, as pred.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.le(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return compare(lhs, rhs, ComparisonDirection.LE, broadcast_dimensions)


@checked
def lt(lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None) -> Op:
    """Return where lhs < rhs, as pred.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.lt(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return compare(lhs, rhs, ComparisonDirection.LT, broadcast_dimensions)


@checked
def eq_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
) -> Op:
    """Like `eq` in the order -NaN < -inf < -0 < +0 < inf < NaN.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.eq_total_order(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return _total(lhs, rhs, ComparisonDirection.EQ, broadcast_dimensions)


@checked
def ne_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
) -> Op:
    """Like `ne` in the order -NaN < -inf < -0 < +0 < inf < NaN.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.ne_total_order(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return _total(lhs, rhs, ComparisonDirection.NE, broadcast_dimensions)


@checked
def ge_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
) -> Op:
    """Like `ge` in the order -NaN < -inf < -0 < +0 < inf < NaN.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.ge_total_order(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return _total(lhs, rhs, ComparisonDirection.GE, broadcast_dimensions)


@checked
def gt_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
) -> Op:
    """Like `gt` in the order -NaN < -inf < -0 < +0 < inf < NaN.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.gt_total_order(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return _total(lhs, rhs, ComparisonDirection.GT, broadcast_dimensions)


@checked
def le_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
) -> Op:
    """Like `le` in the order -NaN < -inf < -0 < +0 < inf < NaN.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.le_total_order(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return _total(lhs, rhs, ComparisonDirection.LE, broadcast_dimensions)


@checked
def lt_total_order(
    lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
) -> Op:
    """Like `lt` in the order -NaN < -inf < -0 < +0 < inf < NaN.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit the operation.
        ArgumentTypeError: An argument has a type that its parameter does not take.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.lt_total_order(x, 0.0)
        %compare.4: pred[3]

    See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
    """
    return _total(lhs, rhs, ComparisonDirection.LT, broadcast_dimensions)


def _total(
    lhs: Op | Scalar,
    rhs: Op | Scalar,
    direction: ComparisonDirection,
    broadcast_dimensions: Dimensions | None,
) -> Op:
    total = ComparisonType.TOTALORDER
    return compare(lhs, rhs, direction, broadcast_dimensions, total)
