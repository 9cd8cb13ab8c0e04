"""Classes of reduce-windows, by which fusion and code generation choose loops."""

import math
from collections.abc import Sequence

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.queries import combiner, neutral_of
from xla_server.target.capability import Capability

IDEMPOTENT = frozenset({Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR})
"""Operations that may combine an element twice. Each of them is exact."""


def is_short_window(sizes: Sequence[int], capability: Capability) -> bool:
    """Return whether a loop over such a window is unrolled in the loop of the result."""
    is_small = math.prod(sizes) <= capability.MAX_UNROLLED_WINDOW
    return is_small and max(sizes, default=1) <= capability.MAX_UNROLLED_ITERATIONS


def has_free_order(i: HloInstruction) -> bool:
    """Return whether a reduce-window combines elements in an order that is free.

    Its operation has a neutral element, which padding may be taken for, and rounds no sum or
    product to a type narrower than it is computed in.
    """
    kind, opcode = i.shape, combiner(i.called[0])
    if len(i.operands) != 2 or opcode is None or kind.is_tuple:
        return False
    element_type = kind.element_type
    types = {part.shape.element_type for part in (*i.operands, i.called[0].root)}
    if types != {element_type} or neutral_of(opcode, element_type) is None:
        return False
    return opcode in IDEMPOTENT or not _is_rounded(element_type)


def _is_rounded(element_type: ElementType) -> bool:
    """Return whether kernels round each result to the type."""
    return element_type.is_floating and element_type.bit_width < 32
