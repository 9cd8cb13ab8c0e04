"""Changes of element type. Semantics: XLA's ConvertElementType, BitcastConvertType and others."""

from xla_client.coercion.shapes import as_element_type
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.ops.elementwise.bitcast_convert import BitcastConvertAttributes
from xla_contract.ops.elementwise.convert import ConvertAttributes
from xla_contract.ops.elementwise.reduce_precision import ReducePrecisionAttributes
from xla_contract.ops.elementwise.stochastic_convert import StochasticConvertAttributes
from xla_contract.types.element_type import ElementTypeLike
from xla_contract.types.opcode import Opcode


@checked
def convert_element_type(operand: Op, element_type: ElementTypeLike) -> Op:
    """The values in another type.

    Floats are rounded to the nearest value, ties to even. Floats become integers by truncation:
    one outside the type becomes the closest integer, NaN becomes 0. Wider integers lose their upper
    bits, complex numbers that become real their imaginary part. pred is true unless the value is 0.

    Args:
        operand: An array.
        element_type: The new element type, as "f32" or np.float32.

    Returns:
        The values, of the operand's dimensions.

    Raises:
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.convert_element_type(x, "s32")
        %convert.2: s32[3]

    See https://openxla.org/xla/operation_semantics#convertelementtype
    """
    attributes = ConvertAttributes(as_element_type(element_type))
    return operand.builder.instruction(Opcode.CONVERT, [operand], attributes)


@checked
def bitcast_convert_type(operand: Op, element_type: ElementTypeLike) -> Op:
    """The same bits read as another type.

    A narrower type adds a last dimension, and a wider one removes it: its size is the ratio of the
    widths.

    Args:
        operand: An array.
        element_type: The new element type, as "f32" or np.float32.

    Returns:
        The array of the other type.

    Raises:
        ShapeError: The last dimension is not the ratio of the widths, or a type is real and the
            other complex.
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.bitcast_convert_type(x, "u8")
        %bitcast-convert.2: u8[3,4]

    See https://openxla.org/xla/operation_semantics#bitcastconverttype
    """
    attributes = BitcastConvertAttributes(as_element_type(element_type))
    return operand.builder.instruction(Opcode.BITCAST_CONVERT, [operand], attributes)


@checked
def reduce_precision(operand: Op, exponent_bits: int, mantissa_bits: int) -> Op:
    """The values rounded to a float format of fewer bits, still in the operand's type.

    Args:
        operand: A floating array.
        exponent_bits: The number of bits of the exponent, from 1.
        mantissa_bits: The number of bits of the mantissa, from 0.

    Returns:
        The rounded values, of the operand's shape.

    Raises:
        InvalidArgumentError: A number of bits exceeds 32 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.reduce_precision(x, 5, 10)
        %reduce-precision.2: f32[3]

    See https://openxla.org/xla/operation_semantics#reduceprecision
    """
    attributes = ReducePrecisionAttributes(exponent_bits, mantissa_bits)
    return operand.builder.instruction(Opcode.REDUCE_PRECISION, [operand], attributes)


@checked
def stochastic_convert_type(operand: Op, random: Op, element_type: ElementTypeLike) -> Op:
    """Signed integers: each value rounded up or down at random, the nearer integer more often.

    Args:
        operand: A floating array.
        random: Random bits that decide: unsigned integers of the operand's width and dimensions.
        element_type: A signed integer type.

    Returns:
        The rounded values, of the operand's dimensions.

    Raises:
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> b = Builder("example")
        >>> x, bits = b.parameter(0, "f32[3]"), b.parameter(1, "u32[3]")
        >>> ops.stochastic_convert_type(x, bits, "s8")
        %stochastic-convert.3: s8[3]
    """
    attributes = StochasticConvertAttributes(as_element_type(element_type))
    return operand.builder.instruction(Opcode.STOCHASTIC_CONVERT, [operand, random], attributes)
