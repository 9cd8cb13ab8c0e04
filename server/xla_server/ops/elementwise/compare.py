"""compare, in IEEE's partial order or in the total one, as on XLA's CPU backend."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xla_contract.ops.elementwise import compare
from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import of_operands
from xla_server.ops.numerics.complex_numbers import from_parts
from xla_server.ops.numerics.numeric import FLUSHED, Array, flushed, widened
from xla_server.ops.numerics.total_order import total_order_key

_RELATION: Mapping[compare.ComparisonDirection, Callable[..., Any]] = {
    compare.ComparisonDirection.EQ: np.equal,
    compare.ComparisonDirection.NE: np.not_equal,
    compare.ComparisonDirection.GE: np.greater_equal,
    compare.ComparisonDirection.GT: np.greater,
    compare.ComparisonDirection.LE: np.less_equal,
    compare.ComparisonDirection.LT: np.less,
}


@of_operands
def evaluate_compare(instruction: HloInstruction, *operands: Array) -> Array:
    """The relation of each pair; NaN only ever differs, except in the total order.

    Subnormal numbers are zeros, as in XLA, except in the total order.
    """
    attributes: compare.CompareAttributes = instruction.attributes
    element_type = instruction.operands[0].shape.element_type
    lhs, rhs = (widened(array, element_type) for array in operands)
    if attributes.type is compare.ComparisonType.TOTALORDER:
        if element_type in _WITH_PAYLOADS:
            lhs, rhs = operands
        lhs, rhs = total_order_key(lhs), total_order_key(rhs)
    elif element_type in FLUSHED:
        lhs, rhs = flushed(lhs), flushed(rhs)
    elif element_type.is_complex:
        lhs, rhs = (from_parts(flushed(side.real), flushed(side.imag)) for side in (lhs, rhs))
    return np.asarray(_RELATION[attributes.direction](lhs, rhs))


_WITH_PAYLOADS = frozenset(
    {
        ElementType.BF16,
        ElementType.F16,
        ElementType.F8E3M4,
        ElementType.F8E4M3,
        ElementType.F8E5M2,
    }
)
"""Narrow types whose bits are laid out as those of F32; conversion to it would merge their NaNs."""
