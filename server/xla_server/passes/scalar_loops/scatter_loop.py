"""scatter as a loop over its index vectors, each of which updates one box."""

import math
from collections.abc import Sequence

from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.formula import Term
from xla_server.passes.loops.counted_loop import Values, counted_loop, read_slice
from xla_server.passes.scalar_loops.element_calls import ScalarCallEmitter


def scattered(i: HloInstruction, callers: Sequence[ScalarCallEmitter]) -> Values:
    """Expand a scatter; boxes out of bounds keep their elements, without a call of the combiner."""
    (caller,) = callers
    editor = caller.editor
    half = len(i.operands) // 2
    operands, indices, updates = i.operands[:half], i.operands[half], i.operands[half + 1 :]
    numbers: ScatterDimensionNumbers = i.attributes.dimension_numbers
    sizes = operands[0].shape.dimensions
    dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    extents = iter([updates[0].shape.dimensions[d] for d in numbers.update_window_dims])
    box = [1 if d in dropped else next(extents) for d in range(len(sizes))]
    if not math.prod(updates[0].shape.dimensions) or any(
        part > size for part, size in zip(box, sizes, strict=True)
    ):
        return operands
    vectors, batch = _vectors(editor, indices, numbers)
    rows = [_rows(editor, update, numbers, box) for update in updates]

    def body(number: HloInstruction, invariants: Values, results: Values) -> Values:
        vector = read_slice(editor, invariants[0], number)
        starts = _starts(editor, vector, number, batch, numbers, len(sizes))
        old = [editor.dynamic_slice(part, starts, box) for part in results]
        new = [read_slice(editor, part, number) for part in invariants[1:]]
        fits = editor.broadcast(_fits(editor, starts, box, sizes), (), box)
        combined = caller.each([*old, *new], fits, old)
        return [
            editor.add(Opcode.DYNAMIC_UPDATE_SLICE, (result, part, *starts))
            for result, part in zip(results, combined, strict=True)
        ]

    return counted_loop(editor, i.name, math.prod(batch), [vectors, *rows], operands, body)


def _vectors(
    editor: Editor, indices: HloInstruction, numbers: ScatterDimensionNumbers
) -> tuple[HloInstruction, list[int]]:
    """The index vectors in s64, one per row, and their batch dimensions' sizes."""
    sizes, last = indices.shape.dimensions, numbers.index_vector_dim
    kept = [d for d in range(len(sizes)) if d != last]
    order = [*kept, *(d for d in [last] if d < len(sizes))]
    batch = [sizes[d] for d in kept]
    flat = editor.transpose(editor.convert(indices, ElementType.S64), order)
    entries = len(numbers.scatter_dims_to_operand_dims)
    return editor.reshape(flat, (math.prod(batch), entries)), batch


def _rows(
    editor: Editor, update: HloInstruction, numbers: ScatterDimensionNumbers, box: Sequence[int]
) -> HloInstruction:
    """The update's boxes, one for each index vector."""
    sizes = update.shape.dimensions
    batch = [d for d in range(len(sizes)) if d not in numbers.update_window_dims]
    moved = editor.transpose(update, (*batch, *numbers.update_window_dims))
    return editor.reshape(moved, (math.prod([sizes[d] for d in batch]), *box))


def _starts(
    editor: Editor,
    vector: HloInstruction,
    number: HloInstruction,
    batch: Sequence[int],
    numbers: ScatterDimensionNumbers,
    rank: int,
) -> list[HloInstruction]:
    """Return a box's start indices: the index vector's, or the position in a batch dimension."""
    starts = [editor.constant(0, ElementType.S64)] * rank
    for entry, d in enumerate(numbers.scatter_dims_to_operand_dims):
        starts[d] = editor.at(vector, entry)
    pairs = zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    for d, of_indices in pairs:
        position = of_indices - (of_indices > numbers.index_vector_dim)
        row = Term(editor, number) / math.prod(batch[position + 1 :])
        starts[d] = row.apply(Opcode.REMAINDER, batch[position]).instruction
    return starts


def _fits(
    editor: Editor, starts: Values, box: Sequence[int], sizes: Sequence[int]
) -> HloInstruction:
    found = editor.constant(True, ElementType.PRED)
    for start, part, size in zip(starts, box, sizes, strict=True):
        for fits in editor.tests_of_start(start, size - part):
            found = editor.add(Opcode.AND, (found, fits))
    return found
