"""Simplifications of slices, pads, concatenations, updates and gathers."""

import math
from collections.abc import Mapping, Sequence

from xla_contract.types.dimension_numbers import PaddingDimension
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import literal_of, splat
from xla_server.passes.framework.rewrite_pass import EditorRule

MAX_PARTS = 256
"""Largest number of operands of a joined concatenation."""


def simplify_slice(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a slice: of everything, a slice, a broadcast, or one part of a concatenation."""
    (operand,) = i.operands
    a = i.attributes
    if i.shape.dimensions == operand.shape.dimensions:
        return operand
    if operand.opcode is Opcode.SLICE:
        inner = operand.attributes
        sizes, steps = i.shape.dimensions, inner.strides
        parts = zip(inner.starts, a.starts, steps, sizes, strict=True)
        # An empty slice may begin after the last element, where strides would leave the operand.
        starts = [start + offset * step if size else start for start, offset, step, size in parts]
        limits = [
            start + (size - 1) * stride * step + 1 if size else start
            for start, size, stride, step in zip(starts, sizes, a.strides, steps, strict=True)
        ]
        strides = [outer * step for outer, step in zip(a.strides, steps, strict=True)]
        return editor.sliced(operand.operands[0], starts, limits, strides)
    if operand.opcode is Opcode.CONCATENATE:
        return _of_one_part(i, operand, editor)
    if operand.opcode is Opcode.BROADCAST:
        mapped = operand.attributes.dimensions
        bounds = ([each[d] for d in mapped] for each in (a.starts, a.limits, a.strides))
        kept = editor.sliced(operand.operands[0], *bounds)
        return editor.broadcast(kept, mapped, i.shape.dimensions)
    return None


def part_of(i: HloInstruction, joined: HloInstruction) -> tuple[HloInstruction, int] | None:
    """Return the part of a concatenation that all elements of a slice are in, and its begin."""
    d, a = joined.attributes.dimension, i.attributes
    last, begin = a.starts[d] + (i.shape.dimensions[d] - 1) * a.strides[d], 0
    for part in joined.operands:
        end = begin + part.shape.dimensions[d]
        if begin <= a.starts[d] <= last < end:
            return part, begin
        begin = end
    return None


def _of_one_part(
    i: HloInstruction, joined: HloInstruction, editor: Editor
) -> HloInstruction | None:
    found, d, a = part_of(i, joined), joined.attributes.dimension, i.attributes
    if found is None:
        return None
    part, begin = found
    last = a.starts[d] + (i.shape.dimensions[d] - 1) * a.strides[d]
    starts, limits = list(a.starts), list(a.limits)
    starts[d], limits[d] = a.starts[d] - begin, last + 1 - begin
    return editor.sliced(part, starts, limits, a.strides)


def simplify_pad(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify pads that add nothing, that add the value their operand repeats, or that cut."""
    operand, value = i.operands
    edges = i.attributes.config.dimensions
    if all(edge == PaddingDimension() for edge in edges):
        return operand
    if operand.opcode is Opcode.BROADCAST and operand.operands[0] is value:
        return editor.broadcast(value, (), i.shape.dimensions)
    if any(min(edge.low, edge.high) < 0 and not edge.interior for edge in edges):
        return _cut(i, operand, value, editor)
    return None


def _cut(
    i: HloInstruction, operand: HloInstruction, value: HloInstruction, editor: Editor
) -> HloInstruction | None:
    kept, starts, limits = [], [], []
    for edge, size in zip(i.attributes.config.dimensions, operand.shape.dimensions, strict=True):
        low, high = (0, 0) if edge.interior else (max(0, -edge.low), max(0, -edge.high))
        if low + high > size:
            return None
        starts.append(low)
        limits.append(size - high)
        kept.append(PaddingDimension(edge.low + low, edge.high + high, edge.interior))
    cut = editor.sliced(operand, starts, limits)
    if all(edge == PaddingDimension() for edge in kept):
        return cut
    return editor.pad(cut, value, kept)


def simplify_concatenate(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Simplify a concatenate of one operand, or with operands that are empty or concatenates."""
    d = i.attributes.dimension
    parts: list[HloInstruction] = []
    for operand in i.operands:
        is_nested = operand.opcode is Opcode.CONCATENATE and operand.attributes.dimension == d
        if is_nested and len(i.operands) + len(operand.operands) <= MAX_PARTS:
            parts += operand.operands
        elif operand.shape.dimensions[d]:
            parts.append(operand)
    if not parts:
        return i.operands[0]
    if len(parts) == 1:
        return parts[0]
    return None if parts == list(i.operands) else editor.concatenate(parts, d)


def simplify_dynamic_slice(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Replace a dynamic-slice of the whole operand, or one with known start indices."""
    operand, *indices = i.operands
    if i.shape.dimensions == operand.shape.dimensions:
        return operand
    starts = _known_starts(indices, operand.shape.dimensions, i.shape.dimensions)
    if starts is None:
        return None
    limits = [start + size for start, size in zip(starts, i.shape.dimensions, strict=True)]
    return editor.sliced(operand, starts, limits)


def _known_starts(
    indices: Sequence[HloInstruction], whole: tuple[int, ...], box: tuple[int, ...]
) -> list[int] | None:
    """The clamped start of a box; None if an index matters and is no constant."""
    if len(indices) == 1 and indices[0].shape.rank:
        vector = literal_of(indices[0])
        numbers = [None] * len(whole) if vector is None else vector.tolist()
    else:
        numbers = [splat(index) for index in indices]
    starts = []
    for number, size, part in zip(numbers, whole, box, strict=True):
        if number is None and part != size:
            return None
        starts.append(min(max(int(number or 0), 0), size - part))
    return starts


def simplify_dynamic_update_slice(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Replace an update of the whole operand by the update."""
    operand, update = i.operands[:2]
    return update if update.shape.dimensions == operand.shape.dimensions else None


def simplify_gather(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Replace a gather of one slice by a dynamic-slice."""
    operand, indices = i.operands
    numbers, sizes = i.attributes.dimension_numbers, i.attributes.slice_sizes
    mapped = numbers.start_index_map
    if numbers.operand_batching_dims or not i.shape.element_count or not sizes or 0 in sizes:
        return None
    if i.shape.element_count != math.prod(sizes):
        return None
    starts = editor.index_elements(indices, mapped, len(sizes))
    box = editor.dynamic_slice(operand, starts, sizes)
    # All batch dimensions have size 1, and slices keep the order of their dimensions.
    return editor.reshape(box, i.shape.dimensions)


SLICE_RULES: Mapping[Opcode, tuple[EditorRule, ...]] = {
    Opcode.CONCATENATE: (simplify_concatenate,),
    Opcode.DYNAMIC_SLICE: (simplify_dynamic_slice,),
    Opcode.DYNAMIC_UPDATE_SLICE: (simplify_dynamic_update_slice,),
    Opcode.GATHER: (simplify_gather,),
    Opcode.PAD: (simplify_pad,),
    Opcode.SLICE: (simplify_slice,),
}
