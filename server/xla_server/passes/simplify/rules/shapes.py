"""Simplifications of reshape, transpose, broadcast and similar operations."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.affine import dense_strides
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import combiner, splat
from xla_server.passes.framework.rewrite_pass import EditorRule
from xla_server.passes.simplify.map_inliner import applied, results_applied
from xla_server.passes.simplify.rules.repeats import reduce_repeated


def simplify_reshape(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a reshape of a reshape, to the same dimensions, or of a broadcast scalar."""
    (operand,) = i.operands
    while operand.opcode is Opcode.RESHAPE:
        (operand,) = operand.operands
    if operand.opcode is Opcode.BROADCAST and not operand.operands[0].shape.rank:
        return editor.broadcast(operand.operands[0], (), i.shape.dimensions)
    if operand is i.operands[0] and operand.shape.dimensions != i.shape.dimensions:
        return _split_broadcast(i, operand, editor)
    return editor.reshape(operand, i.shape.dimensions)


def _split_broadcast(
    i: HloInstruction, operand: HloInstruction, editor: Editor
) -> HloInstruction | None:
    """reshape(broadcast) that keeps the operand's dimensions whole, as a broadcast."""
    if operand.opcode is not Opcode.BROADCAST:
        return None
    (source,) = operand.operands
    targets = operand.attributes.dimensions
    if list(targets) != sorted(targets) or {0, 1} & {*i.shape.dimensions}:
        return None
    places = _whole_dimensions(operand.shape.dimensions, i.shape.dimensions)
    if any(target not in places for target in targets):
        return None
    return editor.broadcast(source, [places[target] for target in targets], i.shape.dimensions)


def _whole_dimensions(before: tuple[int, ...], after: tuple[int, ...]) -> dict[int, int]:
    """Dimensions that a reshape keeps -> their new numbers."""
    read, written = dense_strides(before), dense_strides(after)
    places = {(written[n], size): n for n, size in enumerate(after) if size != 1}
    whole = ((n, (read[n], size)) for n, size in enumerate(before))
    return {n: places[strided] for n, strided in whole if strided in places}


def simplify_transpose(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a transpose of size-1 dimensions, of a transpose, stack, broadcast or iota."""
    (operand,) = i.operands
    permutation = i.attributes.permutation
    if operand.opcode is Opcode.TRANSPOSE:
        inner = operand.attributes.permutation
        return editor.transpose(operand.operands[0], [inner[d] for d in permutation])
    if _keeps_order(operand, permutation):
        return editor.reshape(operand, i.shape.dimensions)
    if operand.opcode is Opcode.CONCATENATE and all(
        _keeps_order(part, permutation) for part in operand.operands
    ):
        parts = [
            editor.reshape(part, [part.shape.dimensions[d] for d in permutation])
            for part in operand.operands
        ]
        return editor.concatenate(parts, permutation.index(operand.attributes.dimension))
    if operand.opcode is Opcode.BROADCAST:
        mapped = [permutation.index(d) for d in operand.attributes.dimensions]
        return editor.broadcast(operand.operands[0], mapped, i.shape.dimensions)
    if operand.opcode is Opcode.IOTA:
        along = permutation.index(operand.attributes.iota_dimension)
        return editor.iota(i.shape.element_type, i.shape.dimensions, along)
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


def simplify_iota(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Replace an iota with one index by zeros."""
    is_one = i.shape.dimensions[i.attributes.iota_dimension] == 1
    return editor.full(0, i.shape.element_type, i.shape.dimensions) if is_one else None


def simplify_reduce(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a reduction along no dimensions, or of several arrays along one element each."""
    if len(i.operands) != 2:
        return _reduced_elements(i, editor)
    operand, initial = i.operands
    if not i.attributes.dimensions:
        return applied(i.called[0], (initial, operand), operand.shape.dimensions, editor)
    return None


def _reduced_elements(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """The results of a reduction of several arrays along dimensions of one element."""
    count = len(i.operands) // 2
    sizes = i.operands[0].shape.dimensions
    if any(sizes[d] != 1 for d in i.attributes.dimensions):
        return None
    kept = i.shape.tuple_shapes[0].dimensions
    elements = [editor.reshape(operand, kept) for operand in i.operands[:count]]
    results = results_applied(i.called[0], [*i.operands[count:], *elements], kept, editor)
    return None if results is None else editor.add(Opcode.TUPLE, results)


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


def simplify_sort(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Lines of at most one element are sorted."""
    if i.operands[0].shape.dimensions[i.attributes.dimension] > 1:
        return None
    return i.operands[0] if len(i.operands) == 1 else editor.add(Opcode.TUPLE, i.operands)


SHAPE_RULES: Mapping[Opcode, tuple[EditorRule, ...]] = {
    Opcode.BROADCAST: (simplify_broadcast,),
    # Values are immutable, so a copy is its operand.
    Opcode.COPY: (lambda i, editor: i.operands[0],),
    Opcode.IOTA: (simplify_iota,),
    Opcode.REDUCE: (simplify_reduce, reduce_repeated),
    Opcode.REDUCE_WINDOW: (simplify_reduce_window,),
    Opcode.RESHAPE: (simplify_reshape,),
    Opcode.SORT: (simplify_sort,),
    Opcode.TRANSPOSE: (simplify_transpose,),
}
