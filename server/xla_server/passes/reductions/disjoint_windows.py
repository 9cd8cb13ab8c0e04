"""reduce-window as a reduction of rows, if windows do not overlap."""

import math

from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import TargetRewritePass


class DisjointWindows(TargetRewritePass):
    """Replaces adjacent unpadded windows along one dimension, or over all, by reductions."""

    name = "disjoint-windows"
    opcodes = (Opcode.REDUCE_WINDOW,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        tuning = self.target.tuning.reductions
        if len(i.operands) != 2:
            return None
        operand, initial = i.operands
        window, result = i.attributes.window.dimensions, i.shape.dimensions
        covered = [number for number, d in enumerate(window) if d != WindowDimension(1)]
        if not covered or 0 in result or not all(_is_tiling(window[d], result[d]) for d in covered):
            return None
        inner = math.prod(result[covered[-1] + 1 :])
        size = math.prod(d.size for d in window)
        is_whole = all(result[d] == 1 for d in covered)
        is_short = size < tuning.min_window_elements or 1 < inner < tuning.min_window_row
        if not is_whole and (len(covered) > 1 or is_short):
            return None
        limits = [d.size * count for d, count in zip(window, result, strict=True)]
        if tuple(limits) != operand.shape.dimensions:
            operand = editor.sliced(operand, [0] * len(limits), limits)
        sizes, reduced = list[int](), list[int]()
        for number, (d, count) in enumerate(zip(window, result, strict=True)):
            sizes.append(count)
            if number in covered:
                reduced.append(len(sizes))
                sizes.append(d.size)
        rows = editor.reshape(operand, sizes)
        return editor.reduce(rows, initial, reduced, i.called[0])


def _is_tiling(window: WindowDimension, count: int) -> bool:
    """Return whether windows tile the dimension: without gaps and without overlap."""
    plain = WindowDimension(window.size, window.stride)
    return window == plain and (window.stride == window.size or count == 1)
