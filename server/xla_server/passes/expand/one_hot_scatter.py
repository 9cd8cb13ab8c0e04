"""A scatter of one element into each row, as a comparison with every index."""

import math

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass
from xla_server.passes.simplify.lifting import applied


class OneHotScatter(RewritePass):
    """Selects the update where the index is that of the element, in rows of constants.

    Gradients of gathers along rows have this form. A loop nest computes the comparison inside its
    reader, without the launches that sort indices. An index out of bounds equals none.
    """

    name = "one-hot-scatter"
    opcodes = (Opcode.SCATTER,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if len(i.operands) != 3 or not _is_constant(i.operands[0]):
            return None
        operand, indices, update = i.operands
        numbers, dimensions = i.attributes.dimension_numbers, operand.shape.dimensions
        rows = numbers.input_batching_dims
        along = [d for d in range(len(dimensions)) if d not in rows]
        is_element = len(along) == 1 and not numbers.update_window_dims
        if not is_element or list(numbers.scatter_dims_to_operand_dims) != along:
            return None
        pairs = list(zip(rows, numbers.scatter_indices_batching_dims, strict=True))
        sizes = [dimensions[d] for d in rows]
        # Each row has one index, and rows keep their order.
        if pairs != sorted(pairs) or [b for _, b in pairs] != sorted(b for _, b in pairs):
            return None
        if math.prod(indices.shape.dimensions) != math.prod(sizes) or not i.shape.element_count:
            return None
        (combiner,) = i.called
        kinds = {part.shape.element_type for part in (*combiner.parameters, combiner.root, update)}
        index_type, length = indices.shape.element_type, dimensions[along[0]]
        if kinds != {i.shape.element_type} or 2 ** (index_type.bit_width - 1) < length:
            return None

        def spread(part: HloInstruction) -> HloInstruction:
            return editor.broadcast(editor.reshape(part, sizes), rows, dimensions)

        positions = editor.iota(index_type, dimensions, along[0])
        is_there = editor.compare(positions, spread(indices), ComparisonDirection.EQ)
        new = spread(update)
        if combiner.root is not combiner.parameters[1]:
            new = applied(combiner, (operand, new), dimensions, editor)
        return editor.add(Opcode.SELECT, (is_there, new, operand))


def _is_constant(i: HloInstruction) -> bool:
    """Return whether all elements are one constant."""
    return i.opcode is Opcode.BROADCAST and i.operands[0].opcode is Opcode.CONSTANT
