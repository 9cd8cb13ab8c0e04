"""Classes of reduce-windows, by which fusion and code generation choose loops.

In a running window each position sees all elements before it, or after it, as in cumulative sums.
"""

import math
from collections.abc import Sequence

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.numerics.scalar_function import recognise
from xla_server.ops.reduction import reduce_window
from xla_server.passes.framework.queries import IDEMPOTENT, combiner, is_narrow_float, neutral_of
from xla_server.target.capability import Capability
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS


def running_axis(instruction: HloInstruction) -> int | None:
    """Return the dimension along which a reduce-window is a scan; None if it is none.

    A window over the elements behind is combined from the end, which exchanges the reducer's
    operands: the reducer must allow that.
    """
    if instruction.opcode is not Opcode.REDUCE_WINDOW:
        return None
    base = instruction.operands[0].shape.dimensions
    axis = reduce_window.running_axis(instruction.attributes.window, base)
    if axis is None or not is_backwards(instruction, axis):
        return axis
    return axis if recognise(instruction.called[0]) else None


def is_backwards(instruction: HloInstruction, axis: int) -> bool:
    """Return whether a running window covers the elements behind each position."""
    return bool(instruction.attributes.window.dimensions[axis].padding_low == 0)


def is_short_window(sizes: Sequence[int], capability: Capability) -> bool:
    """Return whether a loop over such a window is unrolled in the loop of the result."""
    is_small = math.prod(sizes) <= capability.MAX_UNROLLED_WINDOW
    return is_small and max(sizes, default=1) <= MAX_UNROLLED_ITERATIONS


def has_free_order(i: HloInstruction) -> bool:
    """Return whether a reduce-window may combine elements in any order.

    Its operation has a neutral element, the value of padding, and rounds no sum or product to a
    type narrower than its computed type.
    """
    kind, opcode = i.shape, combiner(i.called[0])
    if len(i.operands) != 2 or opcode is None or kind.is_tuple:
        return False
    element_type = kind.element_type
    types = {part.shape.element_type for part in (*i.operands, i.called[0].root)}
    if types != {element_type} or neutral_of(opcode, element_type) is None:
        return False
    return opcode in IDEMPOTENT or not is_narrow_float(element_type)
