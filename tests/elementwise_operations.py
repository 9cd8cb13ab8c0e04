"""One row for each elementwise operation without attributes: what tests expect of it.

Lists of operations, bounds and references in tests derive from these rows, which say again what
the contract, the server and the client have. A row that is missing fails a test.
"""

import dataclasses
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from tests.ulps import complex_references as references
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

Array = Any


@dataclasses.dataclass(frozen=True, slots=True)
class Ulps:
    """Bounds of the distance to XLA's CPU backend by type, in ULP; 0 is the same bits.

    `small` are the floats of 8 bits and fewer. An ULP is the distance to the next number of the
    type. A complex number has the ULP of its larger part, or of 1 where both are smaller: XLA's
    expansions cancel there.
    """

    small: int = 0
    f16: int = 0
    bf16: int = 0
    f32: int = 0
    f64: int = 0
    c64: int = 0
    c128: int = 0

    def of(self, element_type: E) -> int:
        """The bound of results of this type."""
        if not element_type.is_floating and not element_type.is_complex:
            return 0
        if element_type.is_floating and element_type.bit_width <= 8:
            return self.small
        bound: int = getattr(self, element_type.text)
        return bound


EXACT = Ulps()


class Types(NamedTuple):
    """The element types of operands: how errors name them, and some that are refused."""

    allowed: str
    refused: tuple[str, ...]


ANY = Types("", ())
FLOATING = Types("floating", ("s32", "c64"))
WAVES = Types("floating or complex", ("pred", "u32"))
SIGNED = Types("signed, floating or complex", ("pred", "u32"))
BITS = Types("integral", ("pred", "f32", "c64"))
LOGICAL = Types("pred or integral", ("f32", "c64"))
NUMERIC = Types("integral, floating or complex", ("pred",))
ORDERED = Types("integral or floating", ("pred", "c64"))
COMPONENT = Types("f32 or f64", ("pred", "c64"))


def in_snake_case(name: str) -> str:
    """Return a name of XlaBuilder in the style of Python."""
    return re.sub("(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One elementwise operation, as tests expect it."""

    builder: str
    """XlaBuilder's name of it."""

    types: Types
    ulps: Ulps = EXACT
    real: Callable[..., Array] | None = dataclasses.field(default=None, kw_only=True)
    """The exact function of floats, which are given in a type with more digits."""

    complex: Callable[..., Array] | None = dataclasses.field(default=None, kw_only=True)
    """The exact function of complex numbers, unless the operation moves or compares parts."""

    bit: Callable[[int, int], int] | None = dataclasses.field(default=None, kw_only=True)
    """The function of numbers of one bit, before the result is cut to one bit; an operation of one
    operand is given a second one."""

    math_h: bool = dataclasses.field(default=False, kw_only=True)
    """XLA has the function in hlo/builder/lib/math.h."""

    @property
    def function(self) -> str:
        """The client's function: XlaBuilder's name in the style of Python."""
        name = in_snake_case(self.builder)
        return f"{name}_" if keyword.iskeyword(name) else name


def erf(x: Array) -> Array:
    """scipy's for f64; for more precision the series of positive terms."""
    if x.dtype != np.longdouble:
        return special.erf(x)
    square = np.minimum(x * x, np.longdouble(45))
    term = total = np.ones_like(x)
    for k in range(1, 220):
        term = term * (2 * square) / (2 * k + 1)
        total = total + term
    scale = 2 / np.sqrt(4 * np.arctan(np.longdouble(1)))
    return np.where(np.abs(x) > 6.5, np.sign(x), scale * x * np.exp(-square) * total)


def logistic(x: Array) -> Array:
    """The formula of the definition, which is zero where e^-x is infinite in the narrower type."""
    largest = np.finfo(np.float32 if x.dtype == np.float64 else np.float64).max
    falling = np.exp(-x)
    return np.where(falling > x.dtype.type(largest), 0, 1) / (1 + falling)


def _both(
    builder: str, types: Types, ulps: Ulps, function: Callable[..., Array], **more: Any
) -> Operation:
    """Return the row of what numpy has for floats and for complex numbers."""
    return Operation(builder, types, ulps, real=function, complex=function, **more)


OPERATIONS: Mapping[Opcode, Operation] = {
    # XLA computes sizes of complex numbers by an expansion of its own.
    Opcode.ABS: _both("Abs", SIGNED, Ulps(f32=2, f64=2), np.abs, bit=lambda x, _: abs(x)),
    Opcode.ACOS: _both("Acos", WAVES, Ulps(1, 1, 1, 4, 4, 16, 16), np.arccos, math_h=True),
    Opcode.ACOSH: _both("Acosh", WAVES, Ulps(1, 2, 2, 4, 4, 16, 16), np.arccosh, math_h=True),
    Opcode.ADD: _both("Add", ANY, EXACT, np.add, bit=lambda x, y: x + y),
    Opcode.AND: Operation("And", LOGICAL, bit=lambda x, y: x & y),
    Opcode.ASIN: _both("Asin", WAVES, Ulps(1, 1, 1, 4, 4, 16, 16), np.arcsin, math_h=True),
    Opcode.ASINH: _both("Asinh", WAVES, Ulps(1, 1, 1, 4, 4, 16, 16), np.arcsinh, math_h=True),
    Opcode.ATAN: _both("Atan", WAVES, Ulps(1, 1, 1, 4, 2, 16, 16), np.arctan, math_h=True),
    Opcode.ATAN2: Operation(
        "Atan2", WAVES, Ulps(1, 1, 1, 4, 2, 64, 64), real=np.arctan2, complex=references.atan2
    ),
    Opcode.ATANH: _both("Atanh", WAVES, Ulps(1, 1, 1, 4, 256, 16, 16), np.arctanh, math_h=True),
    Opcode.CBRT: Operation("Cbrt", FLOATING, Ulps(1, 1, 1, 4, 4), real=np.cbrt),
    Opcode.CEIL: Operation("Ceil", FLOATING, real=np.ceil),
    Opcode.COMPLEX: Operation("Complex", COMPONENT),
    # JAX writes cosh and sinh with exp(x + log(1/2)), which loses what x has before the point.
    Opcode.COSH: _both("Cosh", WAVES, Ulps(1, 2, 1, 64, 1024, 64, 64), np.cosh, math_h=True),
    Opcode.COSINE: _both("Cos", WAVES, Ulps(1, 1, 1, 2, 2, 4, 4), np.cos),
    Opcode.COUNT_LEADING_ZEROS: Operation("Clz", BITS, bit=lambda x, _: int(x == 0)),
    Opcode.DIVIDE: _both(
        "Div", NUMERIC, Ulps(c64=4, c128=4), np.divide, bit=lambda x, y: x * y if y else -1
    ),
    Opcode.ERF: Operation("Erf", FLOATING, Ulps(1, 1, 1, 8, 4), real=erf),
    Opcode.EXPONENTIAL: _both("Exp", WAVES, Ulps(1, 1, 1, 4, 2, 4, 4), np.exp),
    Opcode.EXPONENTIAL_MINUS_ONE: Operation(
        "Expm1", WAVES, Ulps(1, 2, 1, 8, 8, 8, 8), real=np.expm1, complex=references.expm1
    ),
    Opcode.FLOOR: Operation("Floor", FLOATING, real=np.floor),
    Opcode.IMAG: Operation("Imag", WAVES),
    Opcode.IS_FINITE: Operation("IsFinite", FLOATING, real=np.isfinite),
    Opcode.LOG: Operation(
        "Log", WAVES, Ulps(1, 1, 1, 4, 2, 4, 64), real=np.log, complex=references.log
    ),
    Opcode.LOG_PLUS_ONE: Operation(
        "Log1p", WAVES, Ulps(1, 1, 1, 4, 256, 8, 64), real=np.log1p, complex=references.log_plus_one
    ),
    Opcode.LOGISTIC: Operation(
        "Logistic", WAVES, Ulps(1, 2, 1, 8, 4, 512, 512), real=logistic, complex=references.logistic
    ),
    Opcode.MAXIMUM: Operation(
        "Max",
        ANY,
        real=lambda x, y: np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)),
        bit=max,
    ),
    Opcode.MINIMUM: Operation(
        "Min",
        ANY,
        real=lambda x, y: np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y)),
        bit=min,
    ),
    Opcode.MULHI: Operation("Mulhi", BITS, bit=lambda x, y: x * y >> 1),
    Opcode.MULTIPLY: _both("Mul", ANY, Ulps(c64=2, c128=2), np.multiply, bit=lambda x, y: x * y),
    Opcode.NEGATE: Operation("Neg", NUMERIC, real=np.negative, bit=lambda x, _: -x),
    Opcode.NOT: Operation("Not", LOGICAL, bit=lambda x, _: ~x),
    Opcode.OR: Operation("Or", LOGICAL, bit=lambda x, y: x | y),
    Opcode.POPCNT: Operation("PopulationCount", BITS, bit=lambda x, _: int(x != 0)),
    Opcode.POWER: Operation(
        "Pow",
        NUMERIC,
        Ulps(1, 1, 1, 4, 4, 512, 512),
        real=np.power,
        complex=references.power,
        bit=lambda x, y: x if y else 1,
    ),
    Opcode.REAL: Operation("Real", WAVES),
    Opcode.REMAINDER: Operation("Rem", ORDERED, real=np.fmod, bit=lambda x, y: 0 if y else x),
    Opcode.ROUND_NEAREST_AFZ: Operation(
        "Round", FLOATING, real=lambda x: np.trunc(x + np.copysign(0.5, x))
    ),
    Opcode.ROUND_NEAREST_EVEN: Operation("RoundNearestEven", FLOATING, real=np.rint),
    Opcode.RSQRT: Operation(
        "Rsqrt",
        WAVES,
        Ulps(1, 1, 1, 4, 4, 8, 8),
        real=lambda x: 1 / np.sqrt(x),
        complex=lambda z: 1 / np.sqrt(z),
    ),
    Opcode.SHIFT_LEFT: Operation("ShiftLeft", BITS, bit=lambda x, y: 0 if y else x),
    Opcode.SHIFT_RIGHT_ARITHMETIC: Operation("ShiftRightArithmetic", BITS, bit=lambda x, _: x),
    Opcode.SHIFT_RIGHT_LOGICAL: Operation(
        "ShiftRightLogical", BITS, bit=lambda x, y: 0 if y else x
    ),
    Opcode.SIGN: Operation(
        "Sign",
        SIGNED,
        Ulps(c64=4, c128=4),
        real=lambda x: np.where((x == 0) | np.isnan(x), x, np.sign(x)),
        complex=lambda z: z / np.abs(z),
        bit=lambda x, _: x,
    ),
    Opcode.SINE: _both("Sin", WAVES, Ulps(1, 1, 1, 2, 2, 4, 4), np.sin),
    Opcode.SINH: _both("Sinh", WAVES, Ulps(1, 2, 1, 64, 1024, 64, 64), np.sinh, math_h=True),
    # XLA rounds small floats to F16 first.
    Opcode.SQRT: _both("Sqrt", WAVES, Ulps(small=1, c64=4, c128=4), np.sqrt),
    Opcode.SUBTRACT: _both("Sub", NUMERIC, EXACT, np.subtract, bit=lambda x, y: x - y),
    Opcode.TAN: _both("Tan", WAVES, Ulps(1, 1, 1, 4, 2, 512, 512), np.tan),
    Opcode.TANH: _both("Tanh", WAVES, Ulps(1, 1, 1, 8, 8, 512, 512), np.tanh),
    Opcode.XOR: Operation("Xor", LOGICAL, bit=lambda x, y: x ^ y),
}
"""The row of every operation of one or two operands."""
