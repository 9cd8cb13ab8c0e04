"""Lowering of scatter: one pass over the updates, in the order of their elements.

Updates of one position are combined in order, so threads share the work only along a dimension
that the indices do not reach: there each update stays in its own part of the result.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xla_contract.dimension_numbers import ScatterDimensionNumbers
from xla_contract.opcode import Opcode
from xla_contract.shape import Shape
from xla_server.buffers.code import CANCELLATION, CopyThunk, KernelThunk, Value
from xla_server.codegen.loops.element_text import element_text, load_text, store_text
from xla_server.codegen.loops.stopping import is_long, span_of, stop_lines
from xla_server.codegen.lower.loops import array_shapes
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.ir.module import HloInstruction

_SHORTEST, _LONGEST = 64, 256
"""How many neighbours along the last dimension one trip updates: a quarter of them within these
bounds, as short pieces of many rows cost more than they share out."""

_COST = 8
"""Operations of one update."""


def lower_scatter(lowering: Lowering, i: HloInstruction) -> Tree:
    """The operands copied, which is nothing where they may be overwritten, and updates combined."""
    count = len(i.operands) // 2
    shapes = array_shapes(i.shape)
    results = tuple(lowering.new(shape, f"{i.name}.{n}") for n, shape in enumerate(shapes))
    operands = [lowering.array(operand) for operand in i.operands]
    for result, operand in zip(results, operands[:count], strict=True):
        lowering.add(CopyThunk(result, operand))
    updates = i.operands[count + 1].shape
    if updates.element_count and shapes[0].element_count:
        read = tuple(dict.fromkeys(operands[count:]))
        arguments = (*read, *results)
        space = _Space.of(i.attributes.dimension_numbers, shapes[0], updates)
        trips = -(-updates.dimensions[space.split] // space.block) if space.split >= 0 else 1
        work = _COST * updates.element_count // trips
        if is_long(work):
            arguments = (*arguments, CANCELLATION)
        text = _source(i, space, arguments, operands, results)
        lowering.add(
            KernelThunk(i.name, text, trips, work, arguments, read, results, updates=results)
        )
    return results if i.shape.is_tuple else results[0]


@dataclasses.dataclass(frozen=True, slots=True)
class _Space:
    """Where updates go: for each input dimension, the update dimensions it is counted by.

    `window` and `batch` give the update dimension, -1 for none, whose position is the place in
    the window, and along a batching dimension; `scattered` the number of the index, -1 for none.
    Trips are blocks of update dimension `split`, which is -1 where all is one trip.
    """

    sizes: tuple[int, ...]
    updates: tuple[int, ...]
    batch_dims: tuple[int, ...]
    window: tuple[int, ...]
    batch: tuple[int, ...]
    scattered: tuple[int, ...]
    split: int
    block: int

    @staticmethod
    def of(numbers: ScatterDimensionNumbers, operand: Shape, updates: Shape) -> "_Space":
        """The space of a scatter's dimension numbers."""
        dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
        batch_dims = tuple(n for n in range(updates.rank) if n not in numbers.update_window_dims)
        inner = iter(numbers.update_window_dims)
        dimensions = range(operand.rank)
        window = tuple(-1 if d in dropped else next(inner) for d in dimensions)
        pairs = dict(
            zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
        )
        batch = tuple(
            batch_dims[pairs[d] - (numbers.index_vector_dim < pairs[d])] if d in pairs else -1
            for d in dimensions
        )
        order = numbers.scatter_dims_to_operand_dims
        scattered = tuple(order.index(d) if d in order else -1 for d in dimensions)
        own = [
            place
            for d in dimensions
            for place in (window[d], batch[d])
            if place >= 0 and scattered[d] < 0 and updates.dimensions[place] > 1
        ]
        split = min(own, default=-1)
        block = 1
        if 0 <= split == updates.rank - 1:
            block = max(_SHORTEST, min(_LONGEST, updates.dimensions[split] // 4))
        return _Space(
            operand.dimensions,
            updates.dimensions,
            batch_dims,
            window,
            batch,
            scattered,
            split,
            block,
        )


def _source(
    i: HloInstruction,
    space: _Space,
    arguments: Sequence[Value],
    operands: Sequence[Value],
    results: Sequence[Value],
) -> str:
    """Loops over the updates; an index vector is read in the innermost loop that it depends on."""
    count = len(results)
    types = [result.shape.element_type for result in results]
    update_types = [value.shape.element_type for value in operands[count + 1 :]]
    names = [(f"old{n}", kind) for n, kind in enumerate(types)]
    names += [(f"new{n}", kind) for n, kind in enumerate(update_types)]
    combined = element_text(i.called[0], names, types)
    lines = [*combined.constants, "def kernel(buffers, start, stop):"]
    lines += [f"    b{n} = peek_i64(buffers, {n})" for n in range(len(arguments))]
    lines.append("    for t in range(start, stop):")
    depth = 2
    if not space.batch_dims:
        depth = _read_vector(i, space, arguments.index(operands[count]), lines, depth)
    looking, turns = -1, 1
    if CANCELLATION in arguments:
        looking, turns = span_of(
            [space.block if d == space.split else n for d, n in enumerate(space.updates)]
        )
    for dimension, size in enumerate(space.updates):
        low, high = "0", str(size)
        if dimension == space.split:
            low, high = f"t * {space.block}", f"minimum((t + 1) * {space.block}, i64({size}))"
        if dimension == looking:
            lines.append("    " * depth + f"for begin in range({low}, {high}, {turns}):")
            depth += 1
            lines += stop_lines(depth, f"b{len(arguments) - 1}")
            low, high = "begin", f"minimum(begin + {turns}, i64({high}))"
        lines.append("    " * depth + f"for u{dimension} in range({low}, {high}):")
        depth += 1
        if space.batch_dims and dimension == space.batch_dims[-1]:
            depth = _read_vector(i, space, arguments.index(operands[count]), lines, depth)
    margin = "    " * depth
    place = [
        _sum(
            f"start{d}" if space.scattered[d] >= 0 else "",
            f"u{w}" if w >= 0 else "",
            f"u{b}" if b >= 0 else "",
        )
        for d, (w, b) in enumerate(zip(space.window, space.batch, strict=True))
    ]
    lines.append(margin + f"to = {_flat(place, space.sizes)}")
    own = [f"u{d}" for d in range(len(space.updates))]
    lines.append(margin + f"at = {_flat(own, space.updates)}")
    for n, kind in enumerate(types):
        base = f"b{arguments.index(results[n])}"
        lines.append(margin + f"old{n} = {load_text(kind, base, 'to', 'reload')}")
    for n, kind in enumerate(update_types):
        base = f"b{arguments.index(operands[count + 1 + n])}"
        lines.append(margin + f"new{n} = {load_text(kind, base, 'at')}")
    lines += [margin + line for line in combined.lines]
    for n, (kind, value) in enumerate(zip(types, combined.results, strict=True)):
        lines.append(margin + store_text(kind, f"b{arguments.index(results[n])}", "to", value))
    return "\n".join(lines) + "\n"


def _read_vector(
    i: HloInstruction, space: _Space, buffer: int, lines: list[str], depth: int
) -> int:
    """Lines that read an index vector and go on where the window fits; the depth after them."""
    indices = i.operands[len(i.operands) // 2].shape
    vector = i.attributes.dimension_numbers.index_vector_dim
    margin = "    " * depth
    fits = ""
    for d, (size, entry, window) in enumerate(
        zip(space.sizes, space.scattered, space.window, strict=True)
    ):
        if entry < 0:
            continue
        place = [f"u{n}" for n in space.batch_dims]
        if vector < indices.rank:
            place.insert(vector, str(entry))
        number = load_text(indices.element_type, f"b{buffer}", _flat(place, indices.dimensions))
        if indices.element_type.bit_width == 64 and not indices.element_type.is_signed_integer:
            # What does not fit a signed number is in no array.
            number = f"minimum({number}, u64({2**63 - 1}))"
        lines.append(margin + f"start{d} = to_i64({number})")
        limit = size - (space.updates[window] if window >= 0 else 1)
        inside = f"bit_and(ge(start{d}, i64(0)), le(start{d}, i64({limit})))"
        fits = f"bit_and({fits}, {inside})" if fits else inside
    if not fits:
        return depth
    lines.append(margin + f"if {fits}:")
    return depth + 1


def _sum(*terms: str) -> str:
    named = [term for term in terms if term]
    return f"({' + '.join(named)})" if named else "0"


def _flat(place: Sequence[str], sizes: Sequence[int]) -> str:
    """The element's number in a dense array."""
    terms = [
        part if stride == 1 else f"{part} * {stride}"
        for d, part in enumerate(place)
        if part != "0" and (stride := math.prod(sizes[d + 1 :]))
    ]
    return " + ".join(terms) or "0"


SCATTER_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType({Opcode.SCATTER: lower_scatter})
