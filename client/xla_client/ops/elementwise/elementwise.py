"""Elementwise operations: each row is one function. Semantics: XLA's operation of that opcode.

Binary functions take Ops or one Op and one scalar, and `broadcast_dimensions` as
`xla_client.ops.elementwise.broadcasting` explains it.
"""

from typing import Protocol

from xla_client.ops.elementwise.binary import elementwise
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import Dimensions, Op
from xla_contract.types.opcode import Opcode

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "and_",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "clz",
    "complex",
    "conj",
    "copy",
    "cos",
    "cosh",
    "div",
    "erf",
    "exp",
    "expm1",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log1p",
    "logistic",
    "max",
    "min",
    "mul",
    "mulhi",
    "neg",
    "not_",
    "or_",
    "population_count",
    "pow",
    "real",
    "rem",
    "round",
    "round_nearest_even",
    "rsqrt",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "sub",
    "tan",
    "tanh",
    "xor",
]


class UnaryFunction(Protocol):
    """A function of one operand."""

    def __call__(self, operand: Op) -> Op:
        """Emit the operation; raises ShapeError for an element type it does not have."""


class BinaryFunction(Protocol):
    """A function of two operands."""

    def __call__(
        self, lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
    ) -> Op:
        """Emit the operation; raises ShapeError for operands that do not fit each other."""


_UNARY_DOC = """{text}

The {opcode} operation, element by element.

Args:
    operand: An array.

Returns:
    The array of the results, of the operand's dimensions.

Raises:
    ShapeError: The operation does not have the operand's element type.
    ArgumentTypeError: The operand is no Op.

Example:
    >>> x = Builder("example").parameter(0, "{operand}")
    >>> ops.{name}(x)
    %{opcode}.2: {result}

See https://openxla.org/xla/operation_semantics#element-wise_unary_functions
"""

_BINARY_DOC = """{text}

The {opcode} operation, element by element.

Args:
    lhs: An Op, or a number, which takes the element type of `rhs`.
    rhs: An Op, or a number, which takes the element type of `lhs`.
    broadcast_dimensions: For operands of different rank: the dimension of the larger one for each
        dimension of the smaller one.

Returns:
    The array of the results, of the operands' common dimensions.

Raises:
    ShapeError: The operands do not fit each other, or the operation does not have their type.
    InvalidArgumentError: A number does not fit the element type that it meets.

Example:
    >>> x = Builder("example").parameter(0, "{operand}")
    >>> ops.{name}(x, x)
    %{opcode}.2: {result}

See https://openxla.org/xla/operation_semantics#element-wise_binary_arithmetic_operations
"""


def _unary(
    name: str, opcode: Opcode, text: str, operand: str = "f32[3]", result: str = ""
) -> UnaryFunction:
    def function(operand: Op) -> Op:
        return operand.builder.instruction(opcode, [operand])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _UNARY_DOC.format(
        text=text, opcode=opcode, name=name, operand=operand, result=result or operand
    )
    return checked(function)


def _binary(
    name: str, opcode: Opcode, text: str, operand: str = "f32[3]", result: str = ""
) -> BinaryFunction:
    def function(
        lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
    ) -> Op:
        return elementwise(opcode, lhs, rhs, broadcast_dimensions)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _BINARY_DOC.format(
        text=text, opcode=opcode, name=name, operand=operand, result=result or operand
    )
    return checked(function)


abs = _unary("abs", Opcode.ABS, "Magnitude; real for complex operands.")
acos = _unary("acos", Opcode.ACOS, "Inverse cosine.")
acosh = _unary("acosh", Opcode.ACOSH, "Inverse hyperbolic cosine.")
asin = _unary("asin", Opcode.ASIN, "Inverse sine.")
asinh = _unary("asinh", Opcode.ASINH, "Inverse hyperbolic sine.")
atan = _unary("atan", Opcode.ATAN, "Inverse tangent.")
atanh = _unary("atanh", Opcode.ATANH, "Inverse hyperbolic tangent.")
cbrt = _unary("cbrt", Opcode.CBRT, "Cube root.")
ceil = _unary("ceil", Opcode.CEIL, "The least integer that is not below the operand.")
clz = _unary("clz", Opcode.COUNT_LEADING_ZEROS, "Number of leading zero bits.", "s32[3]")
cos = _unary("cos", Opcode.COSINE, "Cosine.")
cosh = _unary("cosh", Opcode.COSH, "Hyperbolic cosine.")
erf = _unary("erf", Opcode.ERF, "Error function.")
exp = _unary("exp", Opcode.EXPONENTIAL, "e to the operand.")
expm1 = _unary("expm1", Opcode.EXPONENTIAL_MINUS_ONE, "e to the operand, minus one.")
floor = _unary("floor", Opcode.FLOOR, "The greatest integer that is not above the operand.")
imag = _unary("imag", Opcode.IMAG, "Imaginary part.", "c64[3]", "f32[3]")
is_finite = _unary(
    "is_finite", Opcode.IS_FINITE, "Whether neither infinite nor NaN.", "f32[3]", "pred[3]"
)
log = _unary("log", Opcode.LOG, "Natural logarithm.")
log1p = _unary("log1p", Opcode.LOG_PLUS_ONE, "Natural logarithm of one plus the operand.")
logistic = _unary("logistic", Opcode.LOGISTIC, "1 / (1 + exp(-x)).")
neg = _unary("neg", Opcode.NEGATE, "The operand with its sign changed.")
not_ = _unary("not_", Opcode.NOT, "Logical not of pred, bitwise not of integers.", "s32[3]")
population_count = _unary("population_count", Opcode.POPCNT, "Number of one bits.", "s32[3]")
real = _unary("real", Opcode.REAL, "Real part.", "c64[3]", "f32[3]")
round = _unary("round", Opcode.ROUND_NEAREST_AFZ, "Nearest integer, ties away from zero.")
round_nearest_even = _unary(
    "round_nearest_even", Opcode.ROUND_NEAREST_EVEN, "Nearest integer, ties to even."
)
rsqrt = _unary("rsqrt", Opcode.RSQRT, "One over the square root.")
sign = _unary("sign", Opcode.SIGN, "-1, 0 or 1; NaN for NaN; x / abs(x) for complex x, 0 at 0.")
sin = _unary("sin", Opcode.SINE, "Sine.")
sinh = _unary("sinh", Opcode.SINH, "Hyperbolic sine.")
sqrt = _unary("sqrt", Opcode.SQRT, "Square root.")
tan = _unary("tan", Opcode.TAN, "Tangent.")
tanh = _unary("tanh", Opcode.TANH, "Hyperbolic tangent.")

add = _binary("add", Opcode.ADD, "Sum.")
and_ = _binary("and_", Opcode.AND, "Logical and of pred, bitwise and of integers.", "s32[3]")
atan2 = _binary("atan2", Opcode.ATAN2, "Angle of the point (rhs, lhs), in radians from -π to π.")
complex = _binary(
    "complex", Opcode.COMPLEX, "Complex numbers lhs + i rhs, of real operands.", "f32[3]", "c64[3]"
)
div = _binary("div", Opcode.DIVIDE, "Quotient; of integers, truncated.")
max = _binary("max", Opcode.MAXIMUM, "The larger; NaN where either is NaN.")
min = _binary("min", Opcode.MINIMUM, "The smaller; NaN where either is NaN.")
mul = _binary("mul", Opcode.MULTIPLY, "Product.")
mulhi = _binary("mulhi", Opcode.MULHI, "Upper half of the double-width product.", "s32[3]")
or_ = _binary("or_", Opcode.OR, "Logical or of pred, bitwise or of integers.", "s32[3]")
pow = _binary("pow", Opcode.POWER, "lhs to the power of rhs.")
rem = _binary("rem", Opcode.REMAINDER, "Remainder with the sign of the dividend.")
shift_left = _binary(
    "shift_left", Opcode.SHIFT_LEFT, "lhs shifted left by rhs bits; 0 from the width on.", "s32[3]"
)
shift_right_arithmetic = _binary(
    "shift_right_arithmetic",
    Opcode.SHIFT_RIGHT_ARITHMETIC,
    "lhs shifted right by rhs bits, with copies of the sign bit shifted in.",
    "s32[3]",
)
shift_right_logical = _binary(
    "shift_right_logical",
    Opcode.SHIFT_RIGHT_LOGICAL,
    "lhs shifted right by rhs bits, with zeros shifted in.",
    "s32[3]",
)
sub = _binary("sub", Opcode.SUBTRACT, "Difference.")
xor = _binary("xor", Opcode.XOR, "Logical xor of pred, bitwise xor of integers.", "s32[3]")


@checked
def copy(operand: Op) -> Op:
    """The same value in another buffer.

    Args:
        operand: A value of any shape.

    Returns:
        The copy.

    Raises:
        ArgumentTypeError: The operand is no Op.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.copy(x)
        %copy.2: f32[3]

    See https://openxla.org/xla/operation_semantics#element-wise_unary_functions
    """
    return operand.builder.instruction(Opcode.COPY, [operand])


@checked
def conj(operand: Op) -> Op:
    """The complex conjugate, also of a real operand. Semantics: XLA's Conj.

    Args:
        operand: A complex or a floating array.

    Returns:
        The conjugate: complex, of the operand's dimensions.

    Example:
        >>> x = Builder("example").parameter(0, "c64[3]")
        >>> ops.conj(x)
        %complex.5: c64[3]

    See https://openxla.org/xla/operation_semantics#element-wise_unary_functions
    """
    return complex(real(operand), neg(imag(operand)))
