"""The elementwise operations: rows of tables from opcode to numpy function.

Semantics: XLA's CPU backend. A function is looked up under the kind of its operands first and
then among those that fit every kind; it works on the type that values are computed in.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import numpy as np

from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode
from xla_contract.ops.elementwise import BINARY, UNARY
from xla_server.ir.module import HloInstruction
from xla_server.ops import complex_functions, float_functions, integer_functions
from xla_server.ops.evaluation import Evaluator, Frame, Value
from xla_server.ops.numeric import FLUSHED, Array, flushed, in_blocks, narrowed, widened
from xla_server.ops.subnormal_rule import flushes_operands, flushes_results, unchanged_operand
from xla_server.ops.subnormals import subnormals_kept

Function: TypeAlias = Callable[..., Any]

_EVERY_KIND: Mapping[Opcode, Function] = MappingProxyType(
    {
        Opcode.ABS: np.abs,
        Opcode.ACOS: np.arccos,
        Opcode.ACOSH: np.arccosh,
        Opcode.ADD: np.add,
        Opcode.AND: np.bitwise_and,
        Opcode.ASIN: np.arcsin,
        Opcode.ASINH: np.arcsinh,
        Opcode.ATAN: np.arctan,
        Opcode.ATAN2: np.arctan2,
        Opcode.ATANH: np.arctanh,
        Opcode.CBRT: np.cbrt,
        Opcode.CEIL: np.ceil,
        Opcode.COMPLEX: complex_functions.from_parts,
        Opcode.COSH: np.cosh,
        Opcode.COSINE: np.cos,
        Opcode.DIVIDE: np.divide,
        Opcode.ERF: float_functions.erf,
        Opcode.EXPONENTIAL: np.exp,
        Opcode.EXPONENTIAL_MINUS_ONE: np.expm1,
        Opcode.FLOOR: np.floor,
        Opcode.IMAG: np.imag,
        Opcode.IS_FINITE: np.isfinite,
        Opcode.LOG: np.log,
        Opcode.LOG_PLUS_ONE: np.log1p,
        Opcode.LOGISTIC: float_functions.logistic,
        Opcode.MAXIMUM: np.maximum,
        Opcode.MINIMUM: np.minimum,
        Opcode.MULTIPLY: np.multiply,
        Opcode.NEGATE: np.negative,
        Opcode.NOT: np.invert,
        Opcode.OR: np.bitwise_or,
        Opcode.POWER: float_functions.power,
        Opcode.REAL: np.real,
        Opcode.REMAINDER: float_functions.remainder,
        Opcode.ROUND_NEAREST_AFZ: float_functions.round_away,
        Opcode.ROUND_NEAREST_EVEN: np.rint,
        Opcode.RSQRT: float_functions.rsqrt,
        Opcode.SIGN: float_functions.sign,
        Opcode.SINE: np.sin,
        Opcode.SINH: np.sinh,
        Opcode.SQRT: np.sqrt,
        Opcode.SUBTRACT: np.subtract,
        Opcode.TAN: np.tan,
        Opcode.TANH: np.tanh,
        Opcode.XOR: np.bitwise_xor,
    }
)

_INTEGER: Mapping[Opcode, Function] = MappingProxyType(
    {
        Opcode.DIVIDE: integer_functions.divide,
        Opcode.POWER: integer_functions.power,
        Opcode.REMAINDER: integer_functions.remainder,
        Opcode.SIGN: np.sign,
    }
)

_FLOATING: Mapping[Opcode, Function] = MappingProxyType(
    {
        Opcode.MAXIMUM: float_functions.maximum,
        Opcode.MINIMUM: float_functions.minimum,
    }
)

_COMPLEX: Mapping[Opcode, Function] = MappingProxyType(
    {
        Opcode.ABS: complex_functions.abs,
        Opcode.ACOS: complex_functions.in_more_precision(np.arccos),
        Opcode.ACOSH: complex_functions.in_more_precision(np.arccosh),
        Opcode.ASIN: complex_functions.in_more_precision(np.arcsin),
        Opcode.ASINH: complex_functions.in_more_precision(np.arcsinh),
        Opcode.ATAN: complex_functions.in_more_precision(np.arctan),
        Opcode.ATANH: complex_functions.in_more_precision(np.arctanh),
        Opcode.ATAN2: complex_functions.atan2,
        Opcode.COSINE: complex_functions.cos,
        Opcode.DIVIDE: complex_functions.divide,
        Opcode.EXPONENTIAL: complex_functions.exp,
        Opcode.EXPONENTIAL_MINUS_ONE: complex_functions.expm1,
        Opcode.LOG: complex_functions.log,
        Opcode.LOG_PLUS_ONE: complex_functions.log_plus_one,
        Opcode.LOGISTIC: complex_functions.logistic,
        Opcode.MAXIMUM: complex_functions.maximum,
        Opcode.MINIMUM: complex_functions.minimum,
        Opcode.POWER: complex_functions.power,
        Opcode.RSQRT: complex_functions.rsqrt,
        Opcode.SIGN: complex_functions.sign,
        Opcode.SINE: complex_functions.sin,
        Opcode.SQRT: complex_functions.sqrt,
        Opcode.TAN: complex_functions.tan,
        Opcode.TANH: complex_functions.tanh,
    }
)

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

_BITWISE: Mapping[Opcode, Function] = MappingProxyType(
    {
        Opcode.COUNT_LEADING_ZEROS: integer_functions.count_leading_zeros,
        Opcode.MULHI: integer_functions.multiply_high,
        Opcode.POPCNT: integer_functions.population_count,
        Opcode.SHIFT_LEFT: integer_functions.shift_left,
        Opcode.SHIFT_RIGHT_ARITHMETIC: integer_functions.shift_right_arithmetic,
        Opcode.SHIFT_RIGHT_LOGICAL: integer_functions.shift_right_logical,
    }
)
"""Functions of the bits of integers, which take the element type as last argument."""


def evaluate_elementwise(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Apply the row of the instruction's opcode to arrays of equal dimensions."""
    opcode = instruction.opcode
    element_type = instruction.operands[0].shape.element_type
    result_type = instruction.shape.element_type
    if element_type not in FLUSHED:
        return apply(opcode, element_type, operands, result_type)
    unchanged = unchanged_operand(instruction)
    if unchanged is not None:
        return operands[unchanged]
    flushes_before, flushes_after = flushes_operands(instruction), flushes_results(instruction)

    def applied(arrays: Sequence[Array]) -> Array:
        arrays = [widened(array, element_type) for array in arrays]
        if flushes_before:
            arrays = [flushed(array) for array in arrays]
            return apply(opcode, element_type, arrays, result_type)
        # Both the mode and what vector units make of it are numpy's affair, so it has neither.
        with subnormals_kept():
            result = apply(opcode, element_type, arrays, result_type)
        if flushes_after:
            return narrowed(flushed(widened(result, result_type)), result_type)
        return result

    return in_blocks(applied, [cast(Array, operand) for operand in operands], result_type.dtype)


def apply(
    opcode: Opcode,
    element_type: ElementType,
    operands: Sequence[Any],
    result_type: ElementType,
) -> "np.ndarray[Any, np.dtype[Any]]":
    """The elementwise function `opcode` of arrays of `element_type`; numpy broadcasting holds."""
    bitwise = _BITWISE.get(opcode)
    if bitwise is not None:
        return np.asarray(bitwise(*operands, element_type))
    function = _EVERY_KIND[opcode]
    operands = [widened(operand, element_type) for operand in operands]
    if element_type.is_integer:
        function = _INTEGER.get(opcode, function)
    elif element_type.is_floating:
        function = _FLOATING.get(opcode, function)
    elif element_type.is_complex:
        function = _COMPLEX.get(opcode, function)
        if opcode not in _PLAIN_COMPLEX:
            operands = [operand.astype(np.complex128, copy=False) for operand in operands]
    return narrowed(function(*operands), result_type)


def evaluate_select(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Where the predicate holds on_true, elsewhere on_false."""
    predicate, on_true, on_false = operands
    return np.where(predicate, on_true, on_false)  # type: ignore[arg-type]


def evaluate_clamp(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """min(max(operand, low), high): NaN stays, and high wins where the bounds cross."""
    element_type = instruction.shape.element_type
    if element_type in FLUSHED and unchanged_operand(instruction) is not None:
        return operands[0]
    low, operand, high = operands
    raised = apply(Opcode.MAXIMUM, element_type, [operand, low], element_type)
    return apply(Opcode.MINIMUM, element_type, [raised, high], element_type)


EVALUATORS: Mapping[Opcode, Evaluator] = MappingProxyType(
    {
        **dict.fromkeys([*UNARY, *BINARY], evaluate_elementwise),
        Opcode.SELECT: evaluate_select,
        Opcode.CLAMP: evaluate_clamp,
    }
)
