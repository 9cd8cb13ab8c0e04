"""Elementwise operations: each row is one function. Semantics: XLA's operation of that opcode.

Binary functions take Ops or one Op and one scalar, and `broadcast_dimensions` as
`xla_client.broadcasting` explains it.
"""

from collections.abc import Sequence
from typing import Protocol

from xla_client.builder import Op, elementwise
from xla_client.scalars import Scalar
from xla_contract.opcode import Opcode


class Unary(Protocol):
    """A function of one operand."""

    def __call__(self, operand: Op) -> Op:
        """Emit the operation; raises ShapeError for an element type it does not have."""


class Binary(Protocol):
    """A function of two operands."""

    def __call__(
        self, lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None
    ) -> Op:
        """Emit the operation; raises ShapeError for operands that do not fit each other."""


def _unary(name: str, opcode: Opcode, text: str) -> Unary:
    def function(operand: Op) -> Op:
        return operand.builder.instruction(opcode, [operand])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text} The {opcode} operation."
    return function


def _binary(name: str, opcode: Opcode, text: str) -> Binary:
    def function(
        lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Sequence[int] | None = None
    ) -> Op:
        return elementwise(opcode, lhs, rhs, broadcast_dimensions)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text} The {opcode} operation."
    return function


abs = _unary("abs", Opcode.ABS, "Magnitude; real for complex operands.")
acos = _unary("acos", Opcode.ACOS, "Inverse cosine.")
acosh = _unary("acosh", Opcode.ACOSH, "Inverse hyperbolic cosine.")
asin = _unary("asin", Opcode.ASIN, "Inverse sine.")
asinh = _unary("asinh", Opcode.ASINH, "Inverse hyperbolic sine.")
atan = _unary("atan", Opcode.ATAN, "Inverse tangent.")
atanh = _unary("atanh", Opcode.ATANH, "Inverse hyperbolic tangent.")
cbrt = _unary("cbrt", Opcode.CBRT, "Cube root.")
ceil = _unary("ceil", Opcode.CEIL, "The next integer above.")
clz = _unary("clz", Opcode.COUNT_LEADING_ZEROS, "Number of leading zero bits.")
copy = _unary("copy", Opcode.COPY, "The same value in a buffer of its own.")
cos = _unary("cos", Opcode.COSINE, "Cosine.")
cosh = _unary("cosh", Opcode.COSH, "Hyperbolic cosine.")
erf = _unary("erf", Opcode.ERF, "Error function.")
exp = _unary("exp", Opcode.EXPONENTIAL, "e to the operand.")
expm1 = _unary("expm1", Opcode.EXPONENTIAL_MINUS_ONE, "e to the operand, minus one.")
floor = _unary("floor", Opcode.FLOOR, "The next integer below.")
imag = _unary("imag", Opcode.IMAG, "Imaginary part.")
is_finite = _unary("is_finite", Opcode.IS_FINITE, "Whether neither infinite nor NaN.")
log = _unary("log", Opcode.LOG, "Natural logarithm.")
log1p = _unary("log1p", Opcode.LOG_PLUS_ONE, "Natural logarithm of one plus the operand.")
logistic = _unary("logistic", Opcode.LOGISTIC, "1 / (1 + exp(-x)).")
neg = _unary("neg", Opcode.NEGATE, "The operand with its sign changed.")
not_ = _unary("not_", Opcode.NOT, "Logical not of pred, bitwise not of integers.")
population_count = _unary("population_count", Opcode.POPCNT, "Number of one bits.")
real = _unary("real", Opcode.REAL, "Real part.")
round = _unary("round", Opcode.ROUND_NEAREST_AFZ, "Nearest integer, ties away from zero.")
round_nearest_even = _unary(
    "round_nearest_even", Opcode.ROUND_NEAREST_EVEN, "Nearest integer, ties to even."
)
rsqrt = _unary("rsqrt", Opcode.RSQRT, "One over the square root.")
sign = _unary("sign", Opcode.SIGN, "-1, 0 or 1; NaN for NaN; a unit number for complex.")
sin = _unary("sin", Opcode.SINE, "Sine.")
sinh = _unary("sinh", Opcode.SINH, "Hyperbolic sine.")
sqrt = _unary("sqrt", Opcode.SQRT, "Square root.")
tan = _unary("tan", Opcode.TAN, "Tangent.")
tanh = _unary("tanh", Opcode.TANH, "Hyperbolic tangent.")

add = _binary("add", Opcode.ADD, "Sum.")
and_ = _binary("and_", Opcode.AND, "Logical and of pred, bitwise and of integers.")
atan2 = _binary("atan2", Opcode.ATAN2, "Angle of the point (rhs, lhs).")
complex = _binary("complex", Opcode.COMPLEX, "Complex numbers with these two parts.")
div = _binary("div", Opcode.DIVIDE, "Quotient; of integers, truncated.")
max = _binary("max", Opcode.MAXIMUM, "The larger; NaN where either is NaN.")
min = _binary("min", Opcode.MINIMUM, "The smaller; NaN where either is NaN.")
mul = _binary("mul", Opcode.MULTIPLY, "Product.")
mulhi = _binary("mulhi", Opcode.MULHI, "Upper half of the double-width product.")
or_ = _binary("or_", Opcode.OR, "Logical or of pred, bitwise or of integers.")
pow = _binary("pow", Opcode.POWER, "lhs to the power of rhs.")
rem = _binary("rem", Opcode.REMAINDER, "Remainder with the sign of the dividend.")
shift_left = _binary("shift_left", Opcode.SHIFT_LEFT, "Bits moved up; 0 past the width.")
shift_right_arithmetic = _binary(
    "shift_right_arithmetic", Opcode.SHIFT_RIGHT_ARITHMETIC, "Bits moved down, sign kept."
)
shift_right_logical = _binary(
    "shift_right_logical", Opcode.SHIFT_RIGHT_LOGICAL, "Bits moved down, zeros moved in."
)
sub = _binary("sub", Opcode.SUBTRACT, "Difference.")
xor = _binary("xor", Opcode.XOR, "Logical xor of pred, bitwise xor of integers.")


def conj(operand: Op) -> Op:
    """The complex conjugate; of a real operand, the complex number. Semantics: XLA's Conj."""
    return complex(real(operand), neg(imag(operand)))
