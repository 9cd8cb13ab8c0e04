"""Division that rounds towards minus infinity, as Python's and numpy's `//` and `%`.

XLA has none: `div` of integers truncates, and `rem` has the sign of the dividend. Unsigned integers
need one operation, others a few. The result of dividing an integer by zero is unspecified.
"""

from xla_client.ops.elementwise.comparison import eq, gt, lt, ne
from xla_client.ops.elementwise.elementwise import and_, div, rem, round_nearest_even, xor
from xla_client.ops.elementwise.selection import select
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import Op


@checked
def floor_div(lhs: Op | Scalar, rhs: Op | Scalar) -> Op:
    """The quotient rounded towards minus infinity; `div` of integers truncates towards zero.

    Floats give what numpy's floor_divide gives: a whole number; infinite or NaN for division by
    zero.

    Args:
        lhs: The dividend, an Op or a number.
        rhs: The divisor, an Op or a number.

    Returns:
        The quotient, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit each other, or are preds or complex.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> n = Builder("example").parameter(0, "s32[3]")
        >>> ops.floor_div(n, 2)
        %select.14: s32[3]

    See https://openxla.org/xla/operation_semantics#element-wise_binary_arithmetic_operations
    """
    quotient = div(lhs, rhs)
    element_type = quotient.shape.element_type
    if not element_type.is_signed_integer and not element_type.is_floating:
        return quotient
    remainder = rem(lhs, rhs)
    if element_type.is_signed_integer:
        return select(_is_below_zero(remainder, rhs), quotient - 1, quotient)
    # The difference is a multiple of the divisor, except for rounding.
    whole = (lhs - remainder) / rhs
    whole = round_nearest_even(select(_is_below_zero(remainder, rhs), whole - 1.0, whole))
    if isinstance(rhs, Op):
        return select(eq(rhs, 0.0), quotient, whole)
    return whole if rhs else quotient


@checked
def floor_mod(lhs: Op | Scalar, rhs: Op | Scalar) -> Op:
    """The remainder of `floor_div`, with the sign of the divisor; `rem` has the dividend's.

    Args:
        lhs: The dividend, an Op or a number.
        rhs: The divisor, an Op or a number.

    Returns:
        The remainder, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit each other, or are preds or complex.
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> n = Builder("example").parameter(0, "s32[3]")
        >>> ops.floor_mod(n, 2)
        %select.11: s32[3]

    See https://openxla.org/xla/operation_semantics#element-wise_binary_arithmetic_operations
    """
    remainder = rem(lhs, rhs)
    element_type = remainder.shape.element_type
    if not element_type.is_signed_integer and not element_type.is_floating:
        return remainder
    return select(_is_below_zero(remainder, rhs), remainder + rhs, remainder)


def _is_below_zero(remainder: Op, rhs: Op | Scalar) -> Op:
    """A predicate: the exact quotient is less than the one with this remainder, as signs differ."""
    if isinstance(rhs, Op):
        return and_(ne(remainder, 0), xor(lt(remainder, 0), lt(rhs, 0)))
    return lt(remainder, 0) if rhs.real >= 0 else gt(remainder, 0)
