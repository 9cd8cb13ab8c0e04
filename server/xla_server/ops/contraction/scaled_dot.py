"""The evaluator of scaled-dot: both operands multiplied by their scales, then a dot."""

from typing import TypeAlias

import numpy as np

from xla_contract.ops.contraction.dot import DotAttributes
from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.ops.contraction.dot import product
from xla_server.ops.elementwise.convert import converted
from xla_server.ops.evaluation import Array, of_operands

_Typed: TypeAlias = tuple[Array, ElementType]

_NARROWEST = 16
"""Least width of the operands of a product, in bits."""


@of_operands
def evaluate_scaled_dot(instruction: HloInstruction, *operands: Array) -> Array:
    """The dot of the dequantized operands, in the wider of their type and the result's."""
    attributes: DotAttributes = instruction.attributes
    typed = [
        (value, operand.shape.element_type)
        for value, operand in zip(operands, instruction.operands, strict=True)
    ]
    lhs, rhs = _dequantized(typed[0], typed[2]), _dequantized(typed[1], typed[3])
    common = wider_type(lhs[1], rhs[1])
    result = instruction.shape.element_type
    wide = wider_type(common, result)
    sums = product(
        converted(*lhs, common),
        converted(*rhs, common),
        attributes.dimension_numbers,
        (common, common, wide),
    )
    return converted(sums, wide, result)


def wider_type(one: ElementType, other: ElementType) -> ElementType:
    """The type in which values of two floating-point types meet.

    bf16 for any two of less than 16 bits, the wider of two, and f32 for two different ones of one
    width.
    """
    if one.bit_width < _NARROWEST and other.bit_width < _NARROWEST:
        return ElementType.BF16
    if one is other:
        return one
    if one.bit_width == other.bit_width:
        return ElementType.F32
    return max(one, other, key=lambda item: item.bit_width)


def _dequantized(operand: _Typed, scale: _Typed) -> _Typed:
    values, factors = operand[0], scale[0]
    if not factors.ndim:
        return operand
    common = wider_type(operand[1], scale[1])
    factors = converted(*scale, common)
    for number, (size, blocks) in enumerate(zip(values.shape, factors.shape, strict=True)):
        if size != blocks:
            factors = np.repeat(factors, size // blocks, number)
    return np.multiply(converted(*operand, common), factors), common
