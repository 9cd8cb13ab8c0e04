"""Questions about single floating numbers, and their neighbours."""

from xla_client import ops
from xla_client.builder import Op
from xla_client.coercion.checked import checked
from xla_client.lib import constants
from xla_contract.element_type import ElementType
from xla_contract.errors import InvalidArgumentError

_BITS = {16: ElementType.U16, 32: ElementType.U32, 64: ElementType.U64}


@checked
def is_nan(operand: Op) -> Op:
    """pred: where the operand is not a number."""
    return ops.ne(operand, operand)


@checked
def is_inf(operand: Op) -> Op:
    """pred: where the operand is inf or -inf."""
    return ops.eq(ops.abs(operand), float("inf"))


@checked
def is_pos_inf(operand: Op) -> Op:
    """pred: where the operand is inf."""
    return ops.eq(operand, float("inf"))


@checked
def is_neg_inf(operand: Op) -> Op:
    """pred: where the operand is -inf."""
    return ops.eq(operand, float("-inf"))


@checked
def is_neg_zero(operand: Op) -> Op:
    """pred: where the operand is -0. InvalidArgumentError for types but f16, bf16, f32, f64."""
    bits = _bits("is_neg_zero", operand)
    sign = 1 << (bits.shape.element_type.bit_width - 1)
    return ops.eq(bits, sign)


@checked
def next_after(start: Op, towards: Op) -> Op:
    """The number next to `start` on the way to `towards`, elementwise.

    Equal operands give `towards`, NaN gives NaN, and the way from zero begins with the least
    denormal. Semantics: XLA's NextAfter. Raises InvalidArgumentError as `is_neg_zero` does.
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
    """The operand times itself."""
    return operand * operand


@checked
def reciprocal(operand: Op) -> Op:
    """One over the operand."""
    return 1.0 / operand


def _bits(function: str, operand: Op) -> Op:
    element_type = operand.shape.element_type
    found = _BITS.get(element_type.bit_width) if element_type.is_floating else None
    if found is None:
        raise InvalidArgumentError(
            f"{function} needs f16, bf16, f32 or f64, got {operand.shape}", op=function
        )
    return ops.bitcast_convert_type(operand, found)
