"""Rules for operations that move elements: the operand and the index that are read."""

import bisect
from collections.abc import Sequence

from xla_contract.types.element_type import ElementType
from xla_server.codegen.trace.elementwise import converted, zero
from xla_server.codegen.trace.graph import Node, Position
from xla_server.codegen.trace.tracer import NEVER, Index, Tracer
from xla_server.ir.analysis.affine import Affine
from xla_server.ir.analysis.index_maps import operand_index
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction


def trace_mapped(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """Return the operand's element by the operation's index map."""
    return t.operand(i, 0, operand_index(i, index))


def trace_dynamic_slice(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The operand's element relative to start indices, which are clamped so that the box fits."""
    starts: list[Affine] = yield start_indices(t, i, 1, i.shape.dimensions)
    moved = tuple(position + start for position, start in zip(index, starts, strict=True))
    node: Node = yield t.operand(i, 0, moved)
    return node


def start_indices(
    t: Tracer, i: HloInstruction, first: int, box: Sequence[int]
) -> Deep[list[Affine]]:
    """The start indices from operand `first` on, clamped so that the box fits operand 0.

    The start indices are scalars, or one vector.
    """
    sizes, is_vector = i.operands[0].shape.dimensions, bool(box and i.operands[first].shape.rank)
    starts = []
    for d, size in enumerate(box):
        start: Node = yield (
            t.operand(i, first, (Affine(d),)) if is_vector else t.operand(i, first + d, ())
        )
        starts.append(t.clamped(start, sizes[d] - size))
    return starts


def trace_dynamic_update_slice(
    t: Tracer, i: HloInstruction, index: Index, number: int
) -> Deep[Node]:
    """The update's element inside the box, the operand's outside."""
    box, guard = i.operands[1].shape.dimensions, None
    starts: list[Affine] = yield start_indices(t, i, 2, box)
    moved = [position + start * -1 for position, start in zip(index, starts, strict=True)]
    for inner, size in zip(moved, box, strict=True):
        guard = t.both(guard, t.inside(inner, 0, size))
    inside: Node = yield t.guarded(guard, t.operand(i, 1, tuple(moved)))
    if guard is None:
        return inside
    outside: Node = yield t.operand(i, 0, index)
    return t.select(guard, inside, outside)


def trace_pad(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The operand's element if the index has one, else the padding value."""
    sizes = i.operands[0].shape.dimensions
    guard, moved = None, []
    for d, position in enumerate(index):
        edge = i.attributes.config.dimensions[d]
        step = edge.interior + 1
        shift = max(0, -(-(edge.low - position.low) // step))
        offset = position + (shift * step - edge.low)
        if step > 1:
            rest = offset.mod(step)
            if rest != Affine(0):
                on_element = t.inside(rest, 0, 1)
                guard = t.both(guard, on_element)
        inner = offset.floordiv(step) + -shift
        moved.append(inner)
        guard = t.both(guard, t.inside(inner, 0, sizes[d]))
    inside: Node
    if guard is None:
        inside = yield t.operand(i, 0, tuple(moved))
        return inside
    value: Node = yield t.operand(i, 1, ())
    if guard is NEVER or 0 in sizes:
        return value
    inside = yield t.guarded(guard, t.operand(i, 0, tuple(moved)))
    return t.select(guard, inside, value)


def trace_concatenate(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The element of the operand that covers the index."""
    d = i.attributes.dimension
    node: Node | None = None
    ends = t.ends_of(i)
    # An index with known bounds reaches only some of many operands.
    first, last = (bisect.bisect_right(ends, bound) for bound in (index[d].low, index[d].high))
    for n in reversed(range(first, min(last + 1, len(ends)))):
        size, end = i.operands[n].shape.dimensions[d], ends[n]
        if not size:
            continue
        inner = index[d] + -(end - size)
        moved = (*index[:d], inner, *index[d + 1 :])
        guard = t.inside(inner, 0, size)
        if guard is NEVER:
            continue
        found: Node = yield t.guarded(guard, t.operand(i, n, moved))
        if guard is None:
            return found
        node = found if node is None else t.select(guard, found, node)
    assert node is not None
    return node


def trace_iota(t: Tracer, i: HloInstruction, index: Index, number: int) -> Node:
    """The index along one dimension."""
    position = Position(index[i.attributes.iota_dimension])
    return converted(t, position, ElementType.S64, i.shape.element_type)


def trace_gather(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The operand's element in the slice at start indices that are clamped to be in bounds."""
    numbers, sizes = i.attributes.dimension_numbers, i.attributes.slice_sizes
    operand, indices = (part.shape for part in i.operands)
    if 0 in sizes:
        return zero(i.shape.element_type)
    batch = [index[d] for d in range(len(index)) if d not in numbers.offset_dims]
    offsets = iter(index[d] for d in numbers.offset_dims)
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    moved = []
    for d, size in enumerate(sizes):
        offset = Affine(0)
        if d in numbers.start_index_map:
            at = list(batch)
            if numbers.index_vector_dim < indices.rank:
                entry = Affine(numbers.start_index_map.index(d))
                at.insert(numbers.index_vector_dim, entry)
            start: Node = yield t.operand(i, 1, tuple(at))
            offset = t.clamped(start, operand.dimensions[d] - size)
        elif d in numbers.operand_batching_dims:
            pair = numbers.operand_batching_dims.index(d)
            of_indices = numbers.start_indices_batching_dims[pair]
            offset = batch[of_indices - (of_indices > numbers.index_vector_dim)]
        if d not in dropped:
            offset = offset + next(offsets)
        moved.append(offset)
    node: Node = yield t.operand(i, 0, tuple(moved))
    return node
