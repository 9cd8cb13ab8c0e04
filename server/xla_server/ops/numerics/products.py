"""The type in which sums of products are computed, shared by dot and convolution."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_server.ir.checkpoints import checkpoint
from xla_server.ops.evaluation import Array
from xla_server.ops.numerics.numeric import saturated
from xla_server.ops.numerics.scalar_function import round_to

_EXACT_BITS = 53
"""Bits of the significand of F64, in which sums of products of integers are exact."""

_FLOAT_STEPS, _INTEGER_STEPS = 1 << 34, 1 << 28
"""Multiplications of floats, and of integers wider than `_EXACT_BITS`, that take about a second on
two cores (interpreter, products of 2048 rows and columns)."""


def accumulation_type(types: Sequence[ElementType]) -> ElementType | None:
    """The accumulator type of a product of (lhs, rhs, result); None if all are integers."""
    if any(item.is_complex for item in types):
        is_double = {ElementType.C128, ElementType.F64}.intersection(types)
        return ElementType.C128 if is_double else ElementType.C64
    if any(item.is_floating for item in types):
        return ElementType.F64 if ElementType.F64 in types else ElementType.F32
    return None


def compute_type(types: Sequence[ElementType], depth: int) -> "np.dtype[Any]":
    """The numpy type to multiply and add `depth` products in, from those of lhs, rhs and result.

    Floats narrower than f32 are widened to f32 and rounded once. Integers go through f64 while
    that is exact, because only floats have a fast matrix product, and else wrap in the result's
    type. Predicates are counted.
    """
    lhs, rhs, result = types
    wide = accumulation_type(types)
    if wide is not None:
        return wide.dtype
    if ElementType.PRED in (lhs, rhs):
        return np.dtype(np.float64)
    if lhs.bit_width + rhs.bit_width + depth.bit_length() <= _EXACT_BITS:
        return np.dtype(np.float64)
    return result.dtype


def matrix_product(left: Array, right: Array) -> Array:
    """The products (count, rows, depth) x (count, depth, columns) -> (count, rows, columns).

    A sum of one product is that product: XLA makes a multiplication of it, and adding it to zero
    would turn -0 into 0. Raises as `checkpoint`, about once a second.
    """
    count, rows, depth = left.shape
    if depth == 1:
        return cast(Array, np.multiply(left, right))
    most = _FLOAT_STEPS if left.dtype.kind in "fc" else _INTEGER_STEPS
    step = max(1, most // max(1, depth * right.shape[-1]))
    if count * rows <= step:
        return cast(Array, np.matmul(left, right))
    result = np.empty((count, rows, right.shape[-1]), left.dtype)
    for row in range(0, rows, step):
        piece = slice(row, row + step)
        matrices = max(1, step // min(step, rows))
        for first in range(0, count, matrices):
            checkpoint()
            some = slice(first, first + matrices)
            np.matmul(left[some, piece], right[some], out=result[some, piece])
    return result


def to_result(product: Array, types: Sequence[ElementType]) -> Array:
    """Sums of products in the result's type, the last one: of floats rounded, else wrapped."""
    result = types[-1]
    if result.is_integer and product.dtype.kind == "f":
        if any(operand.is_floating for operand in types[:-1]):
            # XLA's CPU backend rounds such sums to the operands' type first.
            return saturated(product, result)
        return round_to(round_to(product, np.dtype(np.int64)), result.dtype)
    return round_to(product, result.dtype)
