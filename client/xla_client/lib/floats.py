"""Tests of single floating-point numbers, and their neighbours."""

from xla_client import ops
from xla_client.lib import constants
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType

_BITS = {16: ElementType.U16, 32: ElementType.U32, 64: ElementType.U64}


@checked
def is_nan(operand: Op) -> Op:
    """Test for NaN, element by element.

    Args:
        operand: An array.

    Returns:
        pred: true where the operand is NaN; nowhere for integers.

    Raises:
        ShapeError: The operand is no array.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.floats.is_nan(x)
        %compare.2: pred[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    return ops.ne(operand, operand)


@checked
def is_inf(operand: Op) -> Op:
    """Test for infinities of either sign, element by element.

    Args:
        operand: An array of a floating type.

    Returns:
        pred: true where the operand is inf or -inf.

    Raises:
        ShapeError: The operand is no array, or of preds or unsigned integers.
        InvalidArgumentError: The element type has no infinity.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.floats.is_inf(x)
        %compare.5: pred[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    return ops.eq(ops.abs(operand), float("inf"))


@checked
def is_pos_inf(operand: Op) -> Op:
    """Test for positive infinity, element by element.

    Args:
        operand: An array of a floating type.

    Returns:
        pred: true where the operand is inf.

    Raises:
        ShapeError: The operand is no array.
        InvalidArgumentError: The element type has no infinity.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.floats.is_pos_inf(x)
        %compare.4: pred[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    return ops.eq(operand, float("inf"))


@checked
def is_neg_inf(operand: Op) -> Op:
    """Test for negative infinity, element by element.

    Args:
        operand: An array of a floating type.

    Returns:
        pred: true where the operand is -inf.

    Raises:
        ShapeError: The operand is no array.
        InvalidArgumentError: The element type has no infinity.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.floats.is_neg_inf(x)
        %compare.4: pred[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    return ops.eq(operand, float("-inf"))


@checked
def is_neg_zero(operand: Op) -> Op:
    """Test for negative zero, element by element.

    Args:
        operand: An array of f16, bf16, f32 or f64.

    Returns:
        pred: true where the operand is -0.

    Raises:
        InvalidArgumentError: The operand has another element type.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.floats.is_neg_zero(x)
        %compare.5: pred[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    bits = _bits("is_neg_zero", operand)
    sign = 1 << (bits.shape.element_type.bit_width - 1)
    return ops.eq(bits, sign)


@checked
def next_after(start: Op, towards: Op) -> Op:
    """The number next to `start` in the direction of `towards`, element by element.

    Equal operands give `towards`, NaN gives NaN, and the number next to zero is the least subnormal
    one.

    Args:
        start: An array of f16, bf16, f32 or f64.
        towards: An array of the same shape.

    Returns:
        The numbers, of the shape of `start`.

    Raises:
        ShapeError: The operands have different shapes.
        InvalidArgumentError: An operand has another element type.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.floats.next_after(x, x)
        %select.44: f32[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    bits, target = _bits("next_after", start), _bits("next_after", towards)
    # On bits alone: platforms may take subnormal numbers for zeros when they compare.
    sign = 1 << (bits.shape.element_type.bit_width - 1)
    size, target_size = ops.and_(bits, sign - 1), ops.and_(target, sign - 1)
    one = constants.ones_like(bits)
    same_side = ops.eq(ops.and_(bits, sign), ops.and_(target, sign))
    # The bits of numbers of one sign count up from zero to infinity.
    outward = ops.and_(same_side, ops.gt(target_size, size))
    moved = ops.select(outward, bits + one, bits - one)
    least = ops.or_(ops.and_(target, sign), one)
    stepped = ops.select(ops.eq(size, 0), least, moved)
    both_zero = ops.eq(ops.or_(size, target_size), 0)
    stays = ops.or_(ops.eq(bits, target), both_zero)
    result = ops.bitcast_convert_type(ops.select(stays, target, stepped), start.shape.element_type)
    return ops.select(ops.or_(is_nan(start), is_nan(towards)), start + towards, result)


@checked
def square(operand: Op) -> Op:
    """The product of each element with itself.

    Args:
        operand: An array of numbers.

    Returns:
        The squares, of the operand's shape.

    Raises:
        ShapeError: The operand is no array of numbers.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.floats.square(x)
        %multiply.2: f32[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    return operand * operand


@checked
def reciprocal(operand: Op) -> Op:
    """One over each element.

    Args:
        operand: An array of a floating or complex type.

    Returns:
        The quotients, of the operand's shape.

    Raises:
        ShapeError: The operand is no array of numbers.
        InvalidArgumentError: The element type is neither floating nor complex.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.floats.reciprocal(x)
        %divide.4: f32[3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/math.h
    """
    return 1.0 / operand


def _bits(function: str, operand: Op) -> Op:
    element_type = operand.shape.element_type
    found = _BITS.get(element_type.bit_width) if element_type.is_floating else None
    if found is None:
        raise InvalidArgumentError(
            f"{function} needs f16, bf16, f32 or f64, got {operand.shape}", op=function
        )
    return ops.bitcast_convert_type(operand, found)
