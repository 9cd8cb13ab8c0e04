"""The table of elementwise operations: one row for each, and the sets that derive from the rows.

A row has what evaluators, cost models, fusion and code generation know of an operation; its arity
and types are in `xla_contract.ops.elementwise.elementwise`. The formula of its kernel function is
in `xla_server.codegen.functions`.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ops.numerics import complex_functions as of_complex
from xla_server.ops.numerics import integer_functions as of_integers
from xla_server.ops.numerics.complex_functions import in_more_precision
from xla_server.ops.numerics.numeric import Array, flushed

Function: TypeAlias = Callable[..., Any]


class CostClass(enum.IntEnum):
    """Cost class of an operation for one element, in additions."""

    ARITHMETIC = 1
    ACCESS = 4
    """A load or a store, from and to the caches."""
    DIVISION = 6
    ROOT = 12
    TRANSCENDENTAL = 20
    """Worth a call instead of a copy of the code where its loop is short."""
    POWER = 80
    """A logarithm and an exponential of sums of two floats, four times as long as one of them."""


class KernelForm(enum.Enum):
    """The kernel functions of an operation on real numbers.

    One on complex numbers, `add_c64`, is a function for each type in every form.
    """

    INSTRUCTION = enum.auto()
    """`add`, of every real type."""

    BITS = enum.auto()
    """`popcnt` of integers of whole bytes; `popcnt_s4` and the like of narrower ones."""

    FUNCTION = enum.auto()
    """`exp_f32`, `exp_f64`: a function for each type that values are computed in."""


@dataclasses.dataclass(frozen=True, slots=True)
class ElementwiseOp:
    """One elementwise operation.

    numpy functions take arrays of the type that values are computed in. The form BITS adds the
    element type as the last argument.
    """

    function: Function
    """The numpy function of every kind of type that has none of its own below."""

    kernel: str
    """The name of the kernel function, without the type."""

    cost: CostClass = CostClass.ARITHMETIC
    form: KernelForm = KernelForm.INSTRUCTION
    ulps: tuple[float, float] | None = None
    """Bounds of the kernel functions' errors for F32 and F64, in ULP of the exact result; None if
    LLVM or the C library defines the result."""

    integer: Function | None = None
    floating: Function | None = None
    complex: Function | None = None
    pred: str | None = None
    """The kernel function of truth values, if it is another."""

    is_exact: bool = False
    """The result is a value of the operands' type without rounding."""

    widens_complex: bool = False
    """C64 is computed as C128 and rounded."""

    keeps_subnormals: bool = False
    """Subnormal operands and results are kept, not taken for zeros (`ops.subnormal_rule`)."""

    def function_of(self, element_type: ElementType) -> Function:
        """Return the numpy function for operands of this type."""
        own = None
        if element_type.is_integer:
            own = self.integer
        elif element_type.is_floating:
            own = self.floating
        elif element_type.is_complex:
            own = self.complex
        return own or self.function

    def widens_to_c128(self, element_type: ElementType) -> bool:
        """Return whether operands of this type are computed as C128, and the result rounded."""
        return element_type is ElementType.C64 and self.widens_complex

    def kernel_function(self, element_type: ElementType, computed: str) -> str:
        """Return the name of the kernel function for operands of this type.

        `computed` is the type that those operands are computed in.
        """
        if element_type is ElementType.PRED and self.pred is not None:
            return self.pred
        if element_type.is_complex or self.form is KernelForm.FUNCTION:
            return f"{self.kernel}_{computed}"
        if self.form is KernelForm.BITS and element_type.bit_width < 8:
            return f"{self.kernel}_{element_type.text}"
        return self.kernel


def _function(
    function: Function,
    kernel: str,
    ulps: tuple[float, float],
    cost: CostClass = CostClass.TRANSCENDENTAL,
    **more: Any,
) -> ElementwiseOp:
    """Return the row of a function with a formula of its own for each computed type."""
    return ElementwiseOp(
        function, kernel, cost, KernelForm.FUNCTION, ulps, widens_complex=True, **more
    )


def _identity_near_zero(*row: Any, **more: Any) -> ElementwiseOp:
    """Return the row of a function that gives back small operands, subnormal ones too."""
    return _function(*row, keeps_subnormals=True, **more)


def _bits(function: Function, kernel: str) -> ElementwiseOp:
    return ElementwiseOp(function, kernel, form=KernelForm.BITS)


def _part(function: Function, kernel: str) -> ElementwiseOp:
    """Return the row of an operation that makes or takes apart complex numbers."""
    return ElementwiseOp(
        function, kernel, form=KernelForm.FUNCTION, is_exact=True, keeps_subnormals=True
    )


def _exact(function: Function, kernel: str, **more: Any) -> ElementwiseOp:
    return ElementwiseOp(function, kernel, is_exact=True, **more)


# Functions of real floats where XLA's CPU backend has another meaning than numpy.


def _sign(x: Array) -> Array:
    """-1, 1, or x itself where it is a zero or NaN."""
    return np.where((x == 0) | np.isnan(x), x, np.sign(x))


def _maximum(x: Array, y: Array) -> Array:
    """The larger of each pair, where NaN beats all and 0 beats -0."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))


def _minimum(x: Array, y: Array) -> Array:
    """The smaller of each pair, where NaN beats all and -0 beats 0."""
    return np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y))


def _round_away(x: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x).astype(x.dtype), whole)


def _rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return np.asarray(np.reciprocal(np.sqrt(x)))


def _erf(x: Array) -> Array:
    """The error function."""
    # The server listens before scipy is loaded.
    from scipy import special

    return np.asarray(special.erf(x))


def _logistic(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(np.reciprocal(1 + np.exp(-x)))


def _remainder(x: Array, y: Array) -> Array:
    """C's fmod; NaN where y is subnormal, as a comparison with zero takes it for that."""
    return np.asarray(np.fmod(x, flushed(y)))


def _power(x: Array, y: Array) -> Array:
    """x ** y as C's pow has it.

    numpy takes roots where an exponent of 0.5 is broadcast: those of -0 and -inf are others.
    """
    roots = y == 0.5
    if np.any(roots):
        x = np.where(roots, np.where(np.isneginf(x), -x, x) + x.dtype.type(0), x)
    return np.asarray(np.power(x, y))


ROWS: Mapping[Opcode, ElementwiseOp] = {
    Opcode.ABS: _exact(np.abs, "absolute", complex=of_complex.abs, keeps_subnormals=True),
    Opcode.ACOS: _function(np.arccos, "acos", (1, 1), complex=in_more_precision(np.arccos)),
    Opcode.ACOSH: _function(np.arccosh, "acosh", (1.5, 1.5), complex=in_more_precision(np.arccosh)),
    Opcode.ADD: ElementwiseOp(np.add, "add", pred="bit_or"),
    Opcode.AND: ElementwiseOp(np.bitwise_and, "bit_and"),
    Opcode.ASIN: _identity_near_zero(
        np.arcsin, "asin", (1, 1), complex=in_more_precision(np.arcsin)
    ),
    Opcode.ASINH: _identity_near_zero(
        np.arcsinh, "asinh", (1.5, 1.5), complex=in_more_precision(np.arcsinh)
    ),
    Opcode.ATAN: _identity_near_zero(
        np.arctan, "atan", (1, 1), complex=in_more_precision(np.arctan)
    ),
    Opcode.ATAN2: _function(np.arctan2, "atan2", (1.5, 1.5), complex=of_complex.atan2),
    Opcode.ATANH: _identity_near_zero(
        np.arctanh, "atanh", (1.5, 1.5), complex=in_more_precision(np.arctanh)
    ),
    Opcode.CBRT: _function(np.cbrt, "cbrt", (1, 1)),
    Opcode.CEIL: _exact(np.ceil, "ceil"),
    Opcode.CLAMP: _exact(
        lambda low, x, high: np.minimum(np.maximum(x, low), high),
        "clamp",
        floating=lambda low, x, high: _minimum(_maximum(x, low), high),
    ),
    Opcode.COMPLEX: _part(of_complex.from_parts, "complex"),
    Opcode.COSH: _function(np.cosh, "cosh", (1.75, 1.75)),
    Opcode.COSINE: _function(np.cos, "cos", (1, 1), complex=of_complex.cos),
    Opcode.COUNT_LEADING_ZEROS: _bits(of_integers.count_leading_zeros, "clz"),
    Opcode.DIVIDE: ElementwiseOp(
        np.divide,
        "div",
        CostClass.DIVISION,
        integer=of_integers.divide,
        complex=of_complex.divide,
        widens_complex=True,
    ),
    Opcode.ERF: _function(_erf, "erf", (2.75, 1.5)),
    Opcode.EXPONENTIAL: _function(np.exp, "exp", (1.25, 1.25), complex=of_complex.exp),
    Opcode.EXPONENTIAL_MINUS_ONE: _identity_near_zero(
        np.expm1, "expm1", (1.25, 1.5), complex=of_complex.expm1
    ),
    Opcode.FLOOR: _exact(np.floor, "floor"),
    Opcode.IMAG: _part(np.imag, "imag"),
    Opcode.IS_FINITE: _exact(np.isfinite, "is_finite", keeps_subnormals=True),
    Opcode.LOG: _function(np.log, "log", (1, 1), complex=of_complex.log),
    Opcode.LOG_PLUS_ONE: _function(
        np.log1p, "log1p", (1.25, 1.25), complex=of_complex.log_plus_one
    ),
    Opcode.LOGISTIC: _function(_logistic, "logistic", (2.5, 2.5), complex=of_complex.logistic),
    Opcode.MAXIMUM: _exact(np.maximum, "maximum", floating=_maximum, complex=of_complex.maximum),
    Opcode.MINIMUM: _exact(np.minimum, "minimum", floating=_minimum, complex=of_complex.minimum),
    Opcode.MULHI: _bits(of_integers.multiply_high, "mulhi"),
    Opcode.MULTIPLY: ElementwiseOp(np.multiply, "mul", pred="bit_and"),
    Opcode.NEGATE: _exact(np.negative, "neg", keeps_subnormals=True),
    Opcode.NOT: ElementwiseOp(np.invert, "bit_not"),
    Opcode.OR: ElementwiseOp(np.bitwise_or, "bit_or"),
    Opcode.POPCNT: _bits(of_integers.population_count, "popcnt"),
    Opcode.POWER: _function(
        _power,
        "pow",
        (1.0, 1.5),
        CostClass.POWER,
        integer=of_integers.power,
        complex=of_complex.power,
    ),
    Opcode.REAL: _part(np.real, "real"),
    Opcode.REMAINDER: ElementwiseOp(
        _remainder,
        "rem",
        CostClass.DIVISION,
        integer=of_integers.remainder,
        keeps_subnormals=True,
    ),
    Opcode.ROUND_NEAREST_AFZ: _exact(_round_away, "round_away"),
    Opcode.ROUND_NEAREST_EVEN: _exact(np.rint, "round_even"),
    Opcode.RSQRT: _function(_rsqrt, "rsqrt", (1.5, 1.5), CostClass.ROOT, complex=of_complex.rsqrt),
    Opcode.SHIFT_LEFT: _bits(of_integers.shift_left, "shift_left"),
    Opcode.SHIFT_RIGHT_ARITHMETIC: _bits(
        of_integers.shift_right_arithmetic, "shift_right_arithmetic"
    ),
    Opcode.SHIFT_RIGHT_LOGICAL: _bits(of_integers.shift_right_logical, "shift_right_logical"),
    Opcode.SIGN: _function(
        _sign,
        "sign",
        (0, 0),
        CostClass.ARITHMETIC,
        integer=np.sign,
        complex=of_complex.sign,
        is_exact=True,
    ),
    Opcode.SINE: _identity_near_zero(np.sin, "sin", (1, 1), complex=of_complex.sin),
    Opcode.SINH: _identity_near_zero(np.sinh, "sinh", (1.75, 1.75)),
    Opcode.SQRT: ElementwiseOp(
        np.sqrt, "sqrt", CostClass.ROOT, complex=of_complex.sqrt, widens_complex=True
    ),
    Opcode.SUBTRACT: ElementwiseOp(np.subtract, "sub"),
    Opcode.TAN: _identity_near_zero(np.tan, "tan", (1.5, 1.5), complex=of_complex.tan),
    Opcode.TANH: _identity_near_zero(np.tanh, "tanh", (2.5, 1.5), complex=of_complex.tanh),
    Opcode.XOR: ElementwiseOp(np.bitwise_xor, "bit_xor"),
}
"""The row of each elementwise operation that has no attributes."""

ELEMENTWISE = frozenset(
    {
        *ROWS,
        Opcode.COMPARE,
        Opcode.CONVERT,
        Opcode.REDUCE_PRECISION,
        Opcode.SELECT,
    }
)
"""Operations that compute each element from the operands' elements at the same index. Those
without a row are as cheap as an addition."""

TRANSCENDENTAL = frozenset(opcode for opcode, row in ROWS.items() if row.cost >= CostClass.ROOT)
"""Functions without an exact algorithm, which XLA's cost analysis counts apart from flops."""

EXPENSIVE = frozenset(opcode for opcode, row in ROWS.items() if row.cost > CostClass.ARITHMETIC)
"""Operations that are not worth computing twice."""
