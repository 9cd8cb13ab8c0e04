"""reduce-window and select-and-scatter as loops over window elements, all positions at once."""

import math
from collections.abc import Sequence

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.types.dimension_numbers import PaddingDimension, Window
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.formula import Term
from xla_server.passes.loops.counted_loop import Values, counted_loop, read_slice, write_slice
from xla_server.passes.scalar_loops.element_calls import ScalarCallEmitter

PADDING_INDEX = -1
"""Index of padding."""


def folded_under_windows(i: HloInstruction, callers: Sequence[ScalarCallEmitter]) -> Values:
    """Expand a reduce-window. Padding is no element: the reducer is not called with it."""
    (caller,) = callers
    editor = caller.editor
    arrays, initial = i.operands[: len(i.operands) // 2], i.operands[len(i.operands) // 2 :]
    window: Window = i.attributes.window
    base = arrays[0].shape.dimensions
    positions = window.output_sizes(base)
    kinds = [parameter.shape.element_type for parameter in caller.computation.parameters]
    totals = [
        editor.broadcast(editor.convert(value, kind), (), positions)
        for value, kind in zip(initial, kinds, strict=False)
    ]
    if not math.prod(positions) or not math.prod(base):
        return totals
    is_element = editor.full(True, ElementType.PRED, base)
    padded = [_padded(editor, array, window) for array in (*arrays, is_element)]

    def body(number: HloInstruction, invariants: Values, totals: Values) -> Values:
        *parts, holds = (_under(editor, array, window, positions, number) for array in invariants)
        return caller.each([*totals, *parts], holds, totals)

    size = math.prod([d.size for d in window.dimensions])
    return counted_loop(editor, i.name, size, padded, totals, body)


def selected_and_scattered(i: HloInstruction, callers: Sequence[ScalarCallEmitter]) -> Values:
    """Expand a select-and-scatter: each window's selected index, then the source values there."""
    select, scatter = callers
    editor = select.editor
    operand, source, initial = i.operands
    sizes, positions = operand.shape.dimensions, source.shape.dimensions
    size = math.prod(sizes)
    target = editor.broadcast(initial, (), (size,))
    if not size or not math.prod(positions):
        return [editor.reshape(target, sizes)]
    selected = _selected_indices(i, select)
    flat = [editor.reshape(part, (math.prod(positions),)) for part in (selected, source)]

    def body(number: HloInstruction, invariants: Values, results: Values) -> Values:
        index, value = (read_slice(editor, array, number) for array in invariants)
        (result,) = results
        old = read_slice(editor, result, index)
        (new,) = scatter.one_where(_is_not_padding(editor, index), (old, value), (old,))
        return [write_slice(editor, result, new, index)]

    (result,) = counted_loop(editor, i.name, math.prod(positions), flat, (target,), body)
    return [editor.reshape(result, sizes)]


def _selected_indices(i: HloInstruction, select: ScalarCallEmitter) -> HloInstruction:
    """Return the linear index of the element that each window selects; PADDING_INDEX if none is.

    A window keeps its first element, until select(kept, later) is false for a later one.
    """
    editor = select.editor
    operand, source, _ = i.operands
    window: Window = i.attributes.window
    sizes, positions = operand.shape.dimensions, source.shape.dimensions
    indices = editor.reshape(editor.iota(ElementType.S64, (math.prod(sizes),), 0), sizes)
    nothing = editor.constant(0, operand.shape.element_type)
    padding_index = editor.constant(PADDING_INDEX, ElementType.S64)
    padded = [_padded(editor, operand, window), _padded(editor, indices, window, PADDING_INDEX)]
    initial = [editor.broadcast(value, (), positions) for value in (nothing, padding_index)]

    def body(number: HloInstruction, invariants: Values, kept: Values) -> Values:
        later = [_under(editor, array, window, positions, number) for array in invariants]
        is_element = _is_not_padding(editor, later[1])
        has_kept = editor.add(Opcode.AND, (is_element, _is_not_padding(editor, kept[1])))
        no = editor.full(False, ElementType.PRED, positions)
        (stays,) = select.each([kept[0], later[0]], has_kept, (no,))
        replaces = editor.add(Opcode.AND, (is_element, editor.add(Opcode.NOT, (stays,))))
        return [
            editor.add(Opcode.SELECT, (replaces, new, old))
            for new, old in zip(later, kept, strict=True)
        ]

    iterations = math.prod([d.size for d in window.dimensions])
    return counted_loop(editor, i.name, iterations, padded, initial, body)[1]


def _is_not_padding(editor: Editor, index: HloInstruction) -> HloInstruction:
    zero = editor.full(0, ElementType.S64, index.shape.dimensions)
    return editor.compare(index, zero, ComparisonDirection.GE)


def _padded(
    editor: Editor, array: HloInstruction, window: Window, value: int = 0
) -> HloInstruction:
    padding = (
        PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1)
        for d in window.dimensions
    )
    return editor.pad(array, editor.constant(value, array.shape.element_type), padding)


def _under(
    editor: Editor,
    padded: HloInstruction,
    window: Window,
    positions: Sequence[int],
    number: HloInstruction,
) -> HloInstruction:
    """Return the elements under a window element with a row-major number, at each position."""
    starts, left = [], Term(editor, number)
    for d in reversed(window.dimensions):
        starts.append((left.apply(Opcode.REMAINDER, d.size) * d.window_dilation).instruction)
        left = left / d.size
    strides = [d.stride for d in window.dimensions]
    spans = [(size - 1) * stride + 1 for size, stride in zip(positions, strides, strict=True)]
    part = editor.dynamic_slice(padded, starts[::-1], spans)
    return editor.sliced(part, (0,) * len(spans), spans, strides)
