"""Elementwise operations as functions of kernels: one row per opcode and kind of type."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode

_ARITHMETIC: Mapping[Opcode, str] = MappingProxyType(
    {
        Opcode.ABS: "absolute",
        Opcode.ADD: "add",
        Opcode.AND: "bit_and",
        Opcode.CEIL: "ceil",
        Opcode.COUNT_LEADING_ZEROS: "clz",
        Opcode.DIVIDE: "div",
        Opcode.FLOOR: "floor",
        Opcode.IS_FINITE: "is_finite",
        Opcode.MAXIMUM: "maximum",
        Opcode.MINIMUM: "minimum",
        Opcode.MULHI: "mulhi",
        Opcode.MULTIPLY: "mul",
        Opcode.NEGATE: "neg",
        Opcode.NOT: "bit_not",
        Opcode.OR: "bit_or",
        Opcode.POPCNT: "popcnt",
        Opcode.REMAINDER: "rem",
        Opcode.ROUND_NEAREST_AFZ: "round_away",
        Opcode.ROUND_NEAREST_EVEN: "round_even",
        Opcode.SHIFT_LEFT: "shift_left",
        Opcode.SHIFT_RIGHT_ARITHMETIC: "shift_right_arithmetic",
        Opcode.SHIFT_RIGHT_LOGICAL: "shift_right_logical",
        Opcode.SQRT: "sqrt",
        Opcode.SUBTRACT: "sub",
        Opcode.XOR: "bit_xor",
    }
)
"""Instructions of LLVM, whatever the type."""

_FUNCTIONS: Mapping[Opcode, str] = MappingProxyType(
    {
        Opcode.ACOS: "acos",
        Opcode.ACOSH: "acosh",
        Opcode.ASIN: "asin",
        Opcode.ASINH: "asinh",
        Opcode.ATAN: "atan",
        Opcode.ATAN2: "atan2",
        Opcode.ATANH: "atanh",
        Opcode.CBRT: "cbrt",
        Opcode.COSH: "cosh",
        Opcode.COSINE: "cos",
        Opcode.ERF: "erf",
        Opcode.EXPONENTIAL: "exp",
        Opcode.EXPONENTIAL_MINUS_ONE: "expm1",
        Opcode.LOG: "log",
        Opcode.LOG_PLUS_ONE: "log1p",
        Opcode.LOGISTIC: "logistic",
        Opcode.POWER: "pow",
        Opcode.RSQRT: "rsqrt",
        Opcode.SIGN: "sign",
        Opcode.SINE: "sin",
        Opcode.SINH: "sinh",
        Opcode.TAN: "tan",
        Opcode.TANH: "tanh",
    }
)
"""Functions of our own, one for each computed type: `exp_f32`."""

_PLAIN_COMPLEX = frozenset(
    {
        Opcode.ABS,
        Opcode.ADD,
        Opcode.IMAG,
        Opcode.MAXIMUM,
        Opcode.MINIMUM,
        Opcode.MULTIPLY,
        Opcode.NEGATE,
        Opcode.REAL,
        Opcode.SUBTRACT,
    }
)
"""What is computed in the operands' own precision; other complex functions get double."""

_PRED: Mapping[Opcode, str] = MappingProxyType({Opcode.ADD: "bit_or", Opcode.MULTIPLY: "bit_and"})
"""Arithmetic of truth values, which does not wrap."""

ELEMENTWISE = frozenset({*_ARITHMETIC, *_FUNCTIONS, Opcode.REAL, Opcode.IMAG, Opcode.COMPLEX})
"""Every opcode that `function_of` knows."""


def function_of(opcode: Opcode, element_type: ElementType, computed: str) -> str:
    """The name of the function that computes `opcode` of operands of `element_type`.

    `computed` is the type those operands are computed in.
    """
    if element_type.is_complex and opcode in _ARITHMETIC:
        return f"{_ARITHMETIC[opcode]}_{computed}"
    if element_type is ElementType.PRED and opcode in _PRED:
        return _PRED[opcode]
    if opcode in (Opcode.REAL, Opcode.IMAG, Opcode.COMPLEX):
        return f"{opcode}_{computed}"
    if opcode in (Opcode.COUNT_LEADING_ZEROS, Opcode.POPCNT, Opcode.MULHI) or opcode in _SHIFTS:
        if element_type.bit_width < 8:
            return f"{_ARITHMETIC[opcode]}_{element_type.text}"
        return _ARITHMETIC[opcode]
    if opcode is Opcode.NOT or opcode in _ARITHMETIC:
        return _ARITHMETIC[opcode]
    return f"{_FUNCTIONS[opcode]}_{computed}"


def is_in_double(opcode: Opcode, element_type: ElementType) -> bool:
    """Whether operands of C64 are computed as C128, and the result rounded."""
    return element_type is ElementType.C64 and opcode not in _PLAIN_COMPLEX


_SHIFTS = (Opcode.SHIFT_LEFT, Opcode.SHIFT_RIGHT_ARITHMETIC, Opcode.SHIFT_RIGHT_LOGICAL)
