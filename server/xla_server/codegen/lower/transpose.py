"""Lowering of transposes that stand for themselves: tile by tile, so that both the lines read
and the lines written are used whole.

Dimensions that stay neighbours are one. What is left is a batch of matrices, whose rows lie in
the source and whose columns lie in the result; the others are outside.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.loops import lower_loop
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.routines.tiles import side_of, tile_name
from xla_server.ir.module import HloInstruction

FEW_ELEMENTS = 256
"""Up to which a loop over elements is as good."""

BLOCK_BYTES = 128
"""Of a row in a block of tiles: some neighbouring lines, which the processor fetches ahead."""


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of the result, and the elements from one index to the next on both sides."""

    size: int
    read: int
    written: int


@dataclasses.dataclass(frozen=True, slots=True)
class Transposition:
    """Elements of `width` bytes. `rows` are dense in the source and `columns` in the result."""

    width: int
    rows: Axis
    columns: Axis
    outer: tuple[Axis, ...]


def transposition(
    dimensions: Sequence[int], permutation: Sequence[int], width: int
) -> Transposition | None:
    """How to transpose an array; None where runs of elements stay together."""
    groups = _merged(dimensions, permutation)
    if not groups:
        return None
    last = groups[-1]
    if last.read == 1 and len(groups) > 2 and last.size * width in (2, 4, 8):
        # A run as short as an element is one.
        width *= last.size
        groups = [Axis(a.size, a.read // last.size, a.written // last.size) for a in groups[:-1]]
    (rows,) = [axis for axis in groups if axis.read == 1]
    columns = groups[-1]
    if rows is columns or width > 8:
        return None
    outer = tuple(axis for axis in groups if axis not in (rows, columns))
    return Transposition(width, rows, columns, outer)


def _merged(dimensions: Sequence[int], permutation: Sequence[int]) -> list[Axis]:
    """The result's dimensions, those that are neighbours in the source as well made one."""
    read = [math.prod(dimensions[d + 1 :]) for d in range(len(dimensions))]
    sizes = [dimensions[d] for d in permutation]
    axes: list[Axis] = []
    for number, d in enumerate(permutation):
        if dimensions[d] == 1:
            continue
        axis = Axis(dimensions[d], read[d], math.prod(sizes[number + 1 :]))
        if axes and axes[-1].read == axis.read * axis.size:
            axis = dataclasses.replace(axis, size=axes.pop().size * axis.size)
        axes.append(axis)
    return axes


def lower_transpose(lowering: Lowering, i: HloInstruction) -> Tree:
    """One kernel of tiles, or a loop nest where there is nothing to gain."""
    (operand,) = i.operands
    plan = transposition(
        operand.shape.dimensions, i.attributes.permutation, i.shape.element_type.byte_width
    )
    if plan is None or i.shape.element_count < FEW_ELEMENTS:
        return lower_loop(lowering, i)
    source, result = lowering.array(operand), lowering.new(i.shape, i.name)
    text, trips, work = transposition_source(plan)
    arguments = (source, result)
    lowering.add(KernelThunk(i.name, text, trips, work, arguments, (source,), (result,)))
    return result


def transposition_source(plan: Transposition) -> tuple[str, int, int]:
    """The text of a kernel, its trips and the work of one."""
    width, rows, columns = plan.width, plan.rows, plan.columns
    side = side_of(width, rows.size, columns.size)
    tall, wide = (_block(axis.size, side or 1, width) for axis in (rows, columns))
    lines = [
        f"row = mul(whole_mod(rest, {-(-rows.size // tall)}), {tall})",
        f"rest = whole_div(rest, {-(-rows.size // tall)})",
        f"column = mul(whole_mod(rest, {-(-columns.size // wide)}), {wide})",
        f"rest = whole_div(rest, {-(-columns.size // wide)})",
        "read = source",
        "written = result",
    ]
    for axis in reversed(plan.outer):
        lines += [
            f"at = whole_mod(rest, {axis.size})",
            f"rest = whole_div(rest, {axis.size})",
            f"read = add(read, mul(at, {axis.read * width}))",
            f"written = add(written, mul(at, {axis.written * width}))",
        ]
    lines += _tiles(plan, side, tall, wide) if side else _elements(plan, tall, wide)
    body = "".join(f"        {line}\n" for line in ("rest = trip", *lines))
    text = (
        "def kernel(buffers, start, stop):\n"
        "    source = peek_i64(buffers, 0)\n"
        "    result = peek_i64(buffers, 1)\n"
        "    for trip in range(start, stop):\n"
        f"{body}"
    )
    blocks = math.prod(-(-axis.size // size) for axis, size in ((rows, tall), (columns, wide)))
    trips = blocks * math.prod(axis.size for axis in plan.outer)
    return text, trips, 2 * min(tall, rows.size) * min(wide, columns.size)


def _block(size: int, side: int, width: int) -> int:
    """A whole number of tiles, as many bytes as a block is to have."""
    return min(-(-size // side) * side, max(side, BLOCK_BYTES // width))


def _tiles(plan: Transposition, side: int, tall: int, wide: int) -> list[str]:
    """The tiles of a block. The last ones begin earlier where they would not fit."""
    width, rows, columns = plan.width, plan.rows, plan.columns
    place = f"add(mul(c, {columns.read * width}), mul(r, {width}))"
    into = f"add(mul(r, {rows.written * width}), mul(c, {width}))"
    return [
        f"for y in range(0, {tall // side}):",
        f"    r = minimum(add(row, mul(y, {side})), {rows.size - side})",
        f"    for x in range(0, {wide // side}):",
        f"        c = minimum(add(column, mul(x, {side})), {columns.size - side})",
        f"        {tile_name(width, side)}(add(read, {place}), {columns.read * width}, "
        f"add(written, {into}), {rows.written * width})",
    ]


def _elements(plan: Transposition, tall: int, wide: int) -> list[str]:
    """A block of rows or columns that are too short for tiles."""
    kind = f"u{8 * plan.width}"
    rows, columns = plan.rows, plan.columns
    loops = [
        f"for r in range(row, minimum(add(row, {tall}), {rows.size})):",
        f"for c in range(column, minimum(add(column, {wide}), {columns.size})):",
    ]
    if tall > wide:
        # The longer run is the inner one.
        loops.reverse()
    return [
        loops[0],
        f"    {loops[1]}",
        f"        value = load_{kind}(read, add(mul(c, {columns.read}), r))",
        f"        store_{kind}(written, add(mul(r, {rows.written}), c), value)",
    ]


TRANSPOSE_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType({Opcode.TRANSPOSE: lower_transpose})
"""The lowering of transposes."""
