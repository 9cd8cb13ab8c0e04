"""reduce-window as a reduction of rows, where windows have no element in common."""

import dataclasses
import math

from xla_contract.dimension_numbers import WindowDimension
from xla_contract.opcode import Opcode
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.build import reduce, reshape, sliced
from xla_server.passes.edit import Editor, rewrite_all
from xla_server.target.pass_tuning import Reductions
from xla_server.target.target import Target


@dataclasses.dataclass(frozen=True)
class DisjointWindows:
    """Replaces windows side by side along one dimension, and those over everything, by reductions.

    There must be no padding and no dilation.
    """

    target: Target
    name: str = "disjoint-windows"

    def apply(self, module: HloModule) -> bool:
        """Replace everywhere; whether anything was."""
        tuning = self.target.tuning.reductions
        return rewrite_all(module, lambda i, editor: _reduced(i, editor, tuning))


def _reduced(i: HloInstruction, editor: Editor, tuning: Reductions) -> HloInstruction | None:
    if i.opcode is not Opcode.REDUCE_WINDOW or len(i.operands) != 2:
        return None
    operand, initial = i.operands
    window, result = i.attributes.window.dimensions, i.shape.dimensions
    covered = [number for number, d in enumerate(window) if d != WindowDimension(1)]
    if not covered or 0 in result or not all(_is_beside(window[d], result[d]) for d in covered):
        return None
    inner = math.prod(result[covered[-1] + 1 :])
    size = math.prod(d.size for d in window)
    is_whole = all(result[d] == 1 for d in covered)
    is_short = size < tuning.min_window_elements or 1 < inner < tuning.min_window_row
    if not is_whole and (len(covered) > 1 or is_short):
        return None
    limits = [d.size * count for d, count in zip(window, result, strict=True)]
    if tuple(limits) != operand.shape.dimensions:
        operand = sliced(editor, operand, [0] * len(limits), limits)
    sizes, reduced = list[int](), list[int]()
    for number, (d, count) in enumerate(zip(window, result, strict=True)):
        sizes.append(count)
        if number in covered:
            reduced.append(len(sizes))
            sizes.append(d.size)
    rows = reshape(editor, operand, sizes)
    return reduce(editor, rows, initial, reduced, i.called[0])


def _is_beside(window: WindowDimension, count: int) -> bool:
    """Return whether windows follow each other without elements between or in common."""
    plain = WindowDimension(window.size, window.stride)
    return window == plain and (window.stride == window.size or count == 1)
