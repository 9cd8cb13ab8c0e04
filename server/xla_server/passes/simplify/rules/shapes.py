"""Simplifications of reshape, transpose, broadcast and similar operations."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import combiner, splat
from xla_server.passes.framework.rewrite_pass import EditorRule
from xla_server.passes.simplify.lifting import applied
from xla_server.passes.simplify.rules.repeats import reduce_repeated


def simplify_reshape(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a reshape of a reshape, to the same dimensions, or of a broadcast scalar."""
    (operand,) = i.operands
    while operand.opcode is Opcode.RESHAPE:
        (operand,) = operand.operands
    if operand.opcode is Opcode.BROADCAST and not operand.operands[0].shape.rank:
        return editor.broadcast(operand.operands[0], (), i.shape.dimensions)
    if operand is i.operands[0] and operand.shape.dimensions != i.shape.dimensions:
        return None
    return editor.reshape(operand, i.shape.dimensions)


def simplify_transpose(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a transpose of dimensions of size 1, of a transpose or of a broadcast."""
    (operand,) = i.operands
    permutation = i.attributes.permutation
    if operand.opcode is Opcode.TRANSPOSE:
        inner = operand.attributes.permutation
        return editor.transpose(operand.operands[0], [inner[d] for d in permutation])
    if _keeps_order(operand, permutation):
        return editor.reshape(operand, i.shape.dimensions)
    if operand.opcode is Opcode.BROADCAST:
        mapped = [permutation.index(d) for d in operand.attributes.dimensions]
        return editor.broadcast(operand.operands[0], mapped, i.shape.dimensions)
    return None


def _keeps_order(operand: HloInstruction, permutation: Sequence[int]) -> bool:
    """Return whether a permutation moves dimensions of one element only."""
    moved = [d for d in permutation if operand.shape.dimensions[d] != 1]
    return moved == sorted(moved)


def simplify_broadcast(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a broadcast of a broadcast, of one element, or that repeats nothing."""
    (operand,) = i.operands
    mapped = i.attributes.dimensions
    if operand.opcode is Opcode.BROADCAST:
        inner = [mapped[d] for d in operand.attributes.dimensions]
        return editor.broadcast(operand.operands[0], inner, i.shape.dimensions)
    if operand.shape.rank and operand.shape.element_count == 1:
        return editor.broadcast(editor.reshape(operand, ()), (), i.shape.dimensions)
    if operand.shape.element_count == i.shape.element_count and 0 not in i.shape.dimensions:
        order = sorted(range(len(mapped)), key=lambda d: mapped[d])
        return editor.reshape(editor.transpose(operand, order), i.shape.dimensions)
    return None


def simplify_reduce(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Replace a reduction of one array along no dimensions by its computation."""
    if i.attributes.dimensions or len(i.operands) != 2:
        return None
    operand, initial = i.operands
    return applied(i.called[0], (initial, operand), operand.shape.dimensions, editor)


def simplify_reduce_window(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify windows of one element each: without padding, or dilated, with zeros between."""
    if len(i.operands) != 2:
        return None
    operand, initial = i.operands
    window = i.attributes.window.dimensions
    if all(
        d.size == d.stride == d.base_dilation == 1 and d.padding_low == d.padding_high == 0
        for d in window
    ):
        return applied(i.called[0], (initial, operand), operand.shape.dimensions, editor)
    source, window = _before_padding(operand, initial, window)
    if combiner(i.called[0]) is Opcode.ADD and splat(initial) == 0 and all(map(_repeats, window)):
        repeated_source = repeated(source, [d.size for d in window], editor)
        dimensions = repeated_source.shape.dimensions
        return applied(i.called[0], (initial, repeated_source), dimensions, editor)
    return None


def _before_padding(
    operand: HloInstruction, initial: HloInstruction, window: Sequence[WindowDimension]
) -> tuple[HloInstruction, Sequence[WindowDimension]]:
    """Return the operand of a pad with the initial value, and windows with its padding."""
    if operand.opcode is not Opcode.PAD or any(d.base_dilation > 1 for d in window):
        return operand, window
    source, value = operand.operands
    if value is not initial:
        return operand, window
    return source, [
        dataclasses.replace(
            d,
            padding_low=d.padding_low + pad.low,
            padding_high=d.padding_high + pad.high,
            base_dilation=1 + pad.interior,
        )
        for d, pad in zip(window, operand.attributes.config.dimensions, strict=True)
    ]


def _repeats(d: WindowDimension) -> bool:
    """Return whether each window of a dilated dimension covers exactly one element, else zeros."""
    pads = {d.padding_low, d.padding_high}
    return d.size == d.base_dilation and d.stride == d.window_dilation == 1 and pads == {d.size - 1}


def repeated(operand: HloInstruction, counts: Sequence[int], editor: Editor) -> HloInstruction:
    """Repeat each element, `counts[d]` times along dimension d."""
    sizes, mapped = list[int](), []
    for size, count in zip(operand.shape.dimensions, counts, strict=True):
        mapped.append(len(sizes))
        sizes += [size] if count == 1 else [size, count]
    whole = [size * n for size, n in zip(operand.shape.dimensions, counts, strict=True)]
    return editor.reshape(editor.broadcast(operand, mapped, sizes), whole)


SHAPE_RULES: Mapping[Opcode, tuple[EditorRule, ...]] = {
    Opcode.BROADCAST: (simplify_broadcast,),
    # Values are immutable, so a copy is its operand.
    Opcode.COPY: (lambda i, editor: i.operands[0],),
    Opcode.REDUCE: (simplify_reduce, reduce_repeated),
    Opcode.REDUCE_WINDOW: (simplify_reduce_window,),
    Opcode.RESHAPE: (simplify_reshape,),
    Opcode.TRANSPOSE: (simplify_transpose,),
}
