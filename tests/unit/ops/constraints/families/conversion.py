"""Broken changes of element type and precision."""

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.elementwise.bitcast_convert import BitcastConvertAttributes
from xla_contract.ops.elementwise.convert import ConvertAttributes
from xla_contract.ops.elementwise.reduce_precision import ReducePrecisionAttributes
from xla_contract.ops.elementwise.stochastic_convert import StochasticConvertAttributes
from xla_contract.ops.shaping.bitcast import BitcastAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

_ARRAY_TYPE = "an array can only be converted to an array element type, got "
_REAL_OR_COMPLEX = "bits must not change between real and complex types, got "


def _convert(operand: str, to: ElementType, message: str, declared: str) -> Case:
    return Case(
        Opcode.CONVERT,
        (operand,),
        message,
        ConvertAttributes(to),
        lambda x: ops.convert_element_type(x, to),
        declared=declared,
    )


def _bitcast_convert(operand: str, to: ElementType, message: str, declared: str) -> Case:
    return Case(
        Opcode.BITCAST_CONVERT,
        (operand,),
        message,
        BitcastConvertAttributes(to),
        lambda x: ops.bitcast_convert_type(x, to),
        declared=declared,
    )


def _bitcast(operand: str, message: str, declared: str) -> Case:
    attributes = BitcastAttributes(Shape.parse(declared))
    return Case(Opcode.BITCAST, (operand,), message, attributes, declared=declared)


def _stochastic(operand: str, random: str, message: str, declared: str = "s32[2]") -> Case:
    to = Shape.parse(declared).element_type
    return Case(
        Opcode.STOCHASTIC_CONVERT,
        (operand, random),
        message,
        StochasticConvertAttributes(to),
        lambda x, r: ops.stochastic_convert_type(x, r, to),
        declared=declared,
    )


def _reduce_precision(operand: str, exponent: int, mantissa: int, message: str) -> Case:
    return Case(
        Opcode.REDUCE_PRECISION,
        (operand,),
        message,
        ReducePrecisionAttributes(exponent, mantissa),
        lambda x: ops.reduce_precision(x, exponent, mantissa),
    )


CASES: tuple[Case, ...] = (
    _convert("(f32[2])", ElementType.S32, "the operand must be an array, got (f32[2])", "s32[2]"),
    _convert("f32[]", ElementType.TOKEN, _ARRAY_TYPE + "f32[] to token", "token[]"),
    _bitcast_convert(
        "token[]", ElementType.S32, "the operand must be an array, got token[]", "s32[]"
    ),
    _bitcast_convert(
        "f32[2]",
        ElementType.TUPLE,
        "bits can only be read as an array element type, got f32[2] to tuple",
        "(f32[2])",
    ),
    _bitcast_convert("u64[2]", ElementType.C64, _REAL_OR_COMPLEX + "u64[2] to c64", "c64[2]"),
    _bitcast_convert(
        "f6e3m2fn[2]",
        ElementType.U4,
        "one width in bits must be a multiple of the other, got f6e3m2fn[2] to u4",
        "u4[2]",
    ),
    _bitcast_convert(
        "u8[3]",
        ElementType.U16,
        "the last dimension must hold the 2 parts of an element, got u8[3] to u16",
        "u16[]",
    ),
    _bitcast_convert(
        "u8[]",
        ElementType.U32,
        "the last dimension must hold the 4 parts of an element, got u8[] to u32",
        "u32[]",
    ),
    _bitcast("(f32[2])", "the operand must be an array, got (f32[2])", "f32[2]"),
    _bitcast("f32[2]", "the result must be an array, got (f32[2])", "(f32[2])"),
    _bitcast(
        "f32[2]",
        "operand and result must take the same number of bytes, got f32[2] and f32[3]",
        "f32[3]",
    ),
    _stochastic("s32[2]", "u32[2]", "the element type of the operand must be floating, got s32[2]"),
    _stochastic(
        "f32[2]", "s32[2]", "the element type of the random operand must be unsigned, got s32[2]"
    ),
    _stochastic(
        "f32[2]",
        "u32[1]",
        "the operand and the random operand must have equal dimensions, got f32[2] and u32[1]",
    ),
    _stochastic(
        "f32[2]",
        "u16[2]",
        "random numbers must have as many bits as the operand's elements, got u16[2] and f32[2]",
    ),
    _stochastic(
        "f32[2]",
        "u32[2]",
        "the new element type must be a signed integer, got f32[2] to u32",
        "u32[2]",
    ),
    _reduce_precision(
        "s32[2]", 5, 10, "the element type of the operand must be floating, got s32[2]"
    ),
    _reduce_precision("f32[2]", 0, 10, "exponent_bits must be at least 1, got 0"),
    _reduce_precision("f32[2]", 5, -1, "mantissa_bits must not be negative, got -1"),
)
