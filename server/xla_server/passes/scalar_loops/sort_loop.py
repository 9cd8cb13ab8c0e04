"""sort as a loop of insertions, each with a binary search for its position."""

import math
from collections.abc import Sequence

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor, inverse_permutation
from xla_server.passes.framework.formula import Term
from xla_server.passes.loops.counted_loop import Values, counted_loop, read_slice, write_slice
from xla_server.passes.scalar_loops.element_calls import ScalarCallEmitter


def sorted_by_insertion(i: HloInstruction, callers: Sequence[ScalarCallEmitter]) -> Values:
    """Expand a sort, line by line; an element is inserted behind those that it does not precede."""
    (caller,) = callers
    editor = caller.editor
    sizes, dimension = i.operands[0].shape.dimensions, i.attributes.dimension
    length = sizes[dimension]
    if not math.prod(sizes):
        return i.operands
    order = [*(d for d in range(len(sizes)) if d != dimension), dimension]
    lines = math.prod(sizes) // length
    moved = [editor.transpose(operand, order) for operand in i.operands]
    arrays = [editor.reshape(array, (lines, length)) for array in moved]

    def body(number: HloInstruction, invariants: Values, results: Values) -> Values:
        line = [read_slice(editor, array, number) for array in invariants]
        found = _sorted_line(caller, i.name, line, length)
        return [
            write_slice(editor, result, part, number)
            for result, part in zip(results, found, strict=True)
        ]

    found = counted_loop(editor, i.name, lines, arrays, arrays, body)
    return [
        editor.transpose(editor.reshape(part, array.shape.dimensions), inverse_permutation(order))
        for part, array in zip(found, moved, strict=True)
    ]


def _sorted_line(caller: ScalarCallEmitter, name: str, line: Values, length: int) -> Values:
    editor = caller.editor

    def body(number: HloInstruction, invariants: Values, found: Values) -> Values:
        new = [read_slice(editor, array, number) for array in invariants]
        position = _insertion_index(caller, name, new, found, number, length)
        return [_inserted(editor, a, part, position) for a, part in zip(found, new, strict=True)]

    return counted_loop(editor, name, length, line, line, body)


def _insertion_index(
    caller: ScalarCallEmitter,
    name: str,
    new: Values,
    found: Values,
    many: HloInstruction,
    length: int,
) -> HloInstruction:
    """Return the number of the first `many` sorted elements that a new element does not precede."""
    editor = caller.editor
    at_new = len(new)

    def body(number: HloInstruction, invariants: Values, bounds: Values) -> Values:
        low, high = bounds
        goes_on = editor.compare(low, high, ComparisonDirection.LT)
        middle = ((Term(editor, low) + Term(editor, high)) / 2).instruction
        pairs = [
            part
            for value, array in zip(invariants[:at_new], invariants[at_new:], strict=True)
            for part in (value, read_slice(editor, array, middle))
        ]
        no = editor.constant(False, ElementType.PRED)
        (comes_before,) = caller.one_where(goes_on, pairs, (no,))
        rises = editor.add(Opcode.AND, (goes_on, editor.add(Opcode.NOT, (comes_before,))))
        above = (Term(editor, middle) + 1).instruction
        next_low = editor.add(Opcode.SELECT, (rises, above, low))
        return [next_low, editor.add(Opcode.SELECT, (comes_before, middle, high))]

    zero = editor.constant(0, ElementType.S64)
    # A search among n elements, at most all but the last, takes log2(n + 1) iterations.
    iterations = (length - 1).bit_length()
    return counted_loop(editor, name, iterations, [*new, *found], (zero, many), body)[0]


def _inserted(
    editor: Editor, array: HloInstruction, value: HloInstruction, position: HloInstruction
) -> HloInstruction:
    """Return the array with a value inserted at an index; elements from there move up by one."""
    (length,) = array.shape.dimensions
    moved = array
    if length > 1:
        parts = [editor.sliced(array, (0,), (limit,)) for limit in (1, length - 1)]
        moved = editor.concatenate(parts, 0)
    index = editor.iota(ElementType.S64, (length,), 0)
    wide = editor.broadcast(position, (), (length,))
    is_here = editor.compare(index, wide, ComparisonDirection.EQ)
    is_before = editor.compare(index, wide, ComparisonDirection.LT)
    new = editor.broadcast(value, (), (length,))
    behind = editor.add(Opcode.SELECT, (is_here, new, moved))
    return editor.add(Opcode.SELECT, (is_before, array, behind))
