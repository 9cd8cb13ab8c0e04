"""Comparisons, giving pred arrays. Semantics: XLA's Compare.

They are functions and not operators: `==`, `<` and their kin are answered by Python at once,
with one bool, where a program needs an array that is known when it runs. Ops have them as methods
(`x.lt(y)`), and their operators raise.
"""

from xla_client.coercion.records import choice
from xla_client.ops.elementwise.binary import elementwise
from xla_client.ops.elementwise.elementwise import BinaryFunction
from xla_client.programs.arguments.checked import Choice, checked
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import Dimensions, Op
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
    """Compare element by element.

    Args:
        lhs: An Op or a number.
        rhs: An Op or a number.
        direction: "eq", "ne", "ge", "gt", "le" or "lt".
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each of the smaller one's.
        comparison_type: "float", "signed" or "unsigned", which the element type determines and is
            the default, or "totalorder", which orders floats as `lt_total_order` does.

    Returns:
        pred, of the operands' shape.

    Raises:
        ShapeError: The operands do not fit each other, or the comparison.
        InvalidArgumentError: A number does not fit the element type that it meets, or a name is
            unknown.

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


_DOC = """{text}

Args:
    lhs: An Op or a number.
    rhs: An Op or a number.
    broadcast_dimensions: For operands of different rank: the dimension of the larger one for
        each of the smaller one's.

Returns:
    pred, of the operands' shape.

Raises:
    ShapeError: The operands do not fit the operation.
    InvalidArgumentError: A number does not fit the element type that it meets.

Example:
    >>> x = Builder("example").parameter(0, "f32[3]")
    >>> ops.{name}(x, 0.0)
    %compare.4: pred[3]

See https://openxla.org/xla/operation_semantics#element-wise_comparison_operations
"""


def _comparison(
    name: str, direction: ComparisonDirection, text: str, order: ComparisonType | None = None
) -> BinaryFunction:
    def function(
        lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
    ) -> Op:
        return compare(lhs, rhs, direction, broadcast_dimensions, order)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _DOC.format(text=text, name=name)
    return checked(function)


def _by_total_order(name: str, direction: ComparisonDirection) -> BinaryFunction:
    text = f"Like `{name}` in the order -NaN < -inf < -0 < +0 < inf < NaN."
    return _comparison(f"{name}_total_order", direction, text, ComparisonType.TOTALORDER)


eq = _comparison("eq", ComparisonDirection.EQ, "Return where lhs == rhs, as pred.")
ne = _comparison("ne", ComparisonDirection.NE, "Return where lhs != rhs, as pred.")
ge = _comparison("ge", ComparisonDirection.GE, "Return where lhs >= rhs, as pred.")
gt = _comparison("gt", ComparisonDirection.GT, "Return where lhs > rhs, as pred.")
le = _comparison("le", ComparisonDirection.LE, "Return where lhs <= rhs, as pred.")
lt = _comparison("lt", ComparisonDirection.LT, "Return where lhs < rhs, as pred.")
eq_total_order = _by_total_order("eq", ComparisonDirection.EQ)
ne_total_order = _by_total_order("ne", ComparisonDirection.NE)
ge_total_order = _by_total_order("ge", ComparisonDirection.GE)
gt_total_order = _by_total_order("gt", ComparisonDirection.GT)
le_total_order = _by_total_order("le", ComparisonDirection.LE)
lt_total_order = _by_total_order("lt", ComparisonDirection.LT)
