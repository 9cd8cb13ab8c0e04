"""Running windows: each position sees everything before it, or after it, as in cumulative sums."""

from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.numerics.scalar_function import recognise


def running_axis(instruction: HloInstruction) -> int | None:
    """Return the dimension along which a reduce-window is a scan; None if it is none.

    A window over the elements behind is combined from the end, which exchanges the reducer's
    operands: the reducer must allow that.
    """
    if instruction.opcode is not Opcode.REDUCE_WINDOW:
        return None
    window = instruction.attributes.window.dimensions
    moving = [n for n, d in enumerate(window) if d != WindowDimension(1)]
    if len(moving) != 1:
        return None
    (axis,) = moving
    size = instruction.operands[0].shape.dimensions[axis]
    if window[axis] == WindowDimension(size, padding_low=size - 1):
        return axis
    behind = WindowDimension(size, padding_high=size - 1)
    return axis if window[axis] == behind and recognise(instruction.called[0]) else None


def is_backwards(instruction: HloInstruction, axis: int) -> bool:
    """Return whether a running window covers the elements behind each position."""
    return bool(instruction.attributes.window.dimensions[axis].padding_low == 0)
