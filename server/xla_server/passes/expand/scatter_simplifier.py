"""A scatter of one window, as a dynamic-update-slice."""

import math

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass
from xla_server.passes.simplify.lifting import applied


class SingleScatter(RewritePass):
    """Turns a scatter with one index vector into a dynamic-update-slice.

    A loop that fuses the update needs no copy of the operand. Scatter skips a window out of bounds,
    for which the slice is updated with its old elements.
    """

    name = "single-scatter"
    opcodes = (Opcode.SCATTER,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if len(i.operands) != 3:
            return None
        operand, indices, update = i.operands
        numbers = i.attributes.dimension_numbers
        dimensions = operand.shape.dimensions
        mapped = numbers.scatter_dims_to_operand_dims
        if numbers.input_batching_dims or _window_count(i) != 1:
            return None
        (combiner,) = i.called
        kinds = {part.shape.element_type for part in (*combiner.parameters, combiner.root, update)}
        if not dimensions or not update.shape.element_count or kinds != {i.shape.element_type}:
            return None
        sizes = iter([update.shape.dimensions[d] for d in numbers.update_window_dims])
        box = [
            1 if d in numbers.inserted_window_dims else next(sizes) for d in range(len(dimensions))
        ]
        if any(part > size for part, size in zip(box, dimensions, strict=True)):
            return None
        starts = editor.index_elements(indices, mapped, len(dimensions))
        new = editor.reshape(update, box)
        old = editor.dynamic_slice(operand, starts, box)
        if combiner.root is not combiner.parameters[1]:
            new = applied(combiner, (old, new), box, editor)
        for d in mapped:
            start = editor.convert(starts[d], ElementType.S64)
            for fits in editor.tests_of_start(start, dimensions[d] - box[d]):
                new = editor.add(Opcode.SELECT, (fits, new, old))
        return editor.add(Opcode.DYNAMIC_UPDATE_SLICE, (operand, new, *starts))


def _window_count(i: HloInstruction) -> int:
    """Return the number of index vectors, from the updates: an empty vector has no elements."""
    window = i.attributes.dimension_numbers.update_window_dims
    sizes = i.operands[2].shape.dimensions
    return math.prod([size for d, size in enumerate(sizes) if d not in window])
