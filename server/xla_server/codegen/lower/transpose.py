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
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.lower.loops import lower_loop
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.routines.tiles import side_of, tile_name
from xla_server.ir.module import HloInstruction

FEW_ELEMENTS = 256
"""Up to which a loop over elements is as good."""

BLOCK_BYTES = 128
"""Of a row in a block of tiles: some neighbouring lines, which the processor fetches ahead."""

FEW_BLOCKS = 8
"""Of a matrix, below which finding the next matrix takes some of the time."""


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
    kernel, trips, work = transposition_kernel(plan)
    arguments = (source, result)
    lowering.add(KernelThunk(i.name, kernel, trips, work, arguments, (source,), (result,)))
    return result


def transposition_kernel(plan: Transposition) -> tuple[SourceKernel, int, int]:
    """Return a kernel, its work items and the operations of one."""
    rows, columns = plan.rows, plan.columns
    side = side_of(plan.width, rows.size, columns.size)
    tall, wide = (_block(axis.size, side or 1, plan.width) for axis in (rows, columns))
    down, across = -(-rows.size // tall), -(-columns.size // wide)
    if side:
        lines = _tiles(plan, side, (tall, wide), (down, across))
    else:
        lines = _elements(plan, (tall, wide), (down, across))
    head = ["source = peek_i64(buffers, 0)", "result = peek_i64(buffers, 1)"]
    body = "".join(f"    {line}\n" for line in head + lines)
    text = f"def kernel(buffers, start, stop):\n{body}"
    trips = down * across * math.prod(axis.size for axis in plan.outer)
    # Few blocks of calls are soon done, whatever is made of the loops around them.
    is_plain = side and down * across < FEW_BLOCKS
    kernel = SourceKernel(text, Effort.PLAIN if is_plain else None)
    return kernel, trips, 2 * min(tall, rows.size) * min(wide, columns.size)


def _outer(plan: Transposition) -> list[str]:
    """Where the matrix of number `rest` begins on both sides."""
    lines = ["read = source", "written = result"]
    for axis in reversed(plan.outer):
        lines += [
            f"at = whole_mod(rest, {axis.size})",
            f"rest = whole_div(rest, {axis.size})",
            f"read = add(read, mul(at, {axis.read * plan.width}))",
            f"written = add(written, mul(at, {axis.written * plan.width}))",
        ]
    return lines


def _block(size: int, side: int, width: int) -> int:
    """A whole number of tiles, as many bytes as a block is to have."""
    return min(-(-size // side) * side, max(side, BLOCK_BYTES // width))


def _tiles(
    plan: Transposition, side: int, block: tuple[int, int], counts: tuple[int, int]
) -> list[str]:
    """Blocks of tiles. The last tiles begin earlier where they would not fit."""
    width, rows, columns = plan.width, plan.rows, plan.columns
    tile, blocks = tile_name(width, side), counts[0] * counts[1]
    if blocks < FEW_BLOCKS:
        place = f"add(mul(c, {columns.read * width}), mul(r, {width}))"
        into = f"add(mul(r, {rows.written * width}), mul(c, {width}))"
        return [
            *_trips(plan, block, counts),
            f"    for y in range(0, {block[0] // side}):",
            f"        r = minimum(add(row, mul(y, {side})), {rows.size - side})",
            f"        for x in range(0, {block[1] // side}):",
            f"            c = minimum(add(column, mul(x, {side})), {columns.size - side})",
            f"            {tile}(add(read, {place}), {columns.read * width}, "
            f"add(written, {into}), {rows.written * width})",
        ]
    numbers = [
        ("begin", "end", counts[0], f"{tile}_address()", side, width),
        ("read", columns.read * width, "written", rows.written * width),
        (*block, rows.size - side, columns.size - side),
    ]
    return [
        f"for matrix in range(whole_div(start, {blocks}), "
        f"whole_div(add(stop, {blocks - 1}), {blocks})):",
        "    rest = matrix",
        *(f"    {line}" for line in _outer(plan)),
        f"    first = mul(matrix, {blocks})",
        f"    begin, end = maximum(sub(start, first), 0), minimum(sub(stop, first), {blocks})",
        f"    transpose_blocks({', '.join(str(n) for part in numbers for n in part)})",
    ]


def _trips(plan: Transposition, block: tuple[int, int], counts: tuple[int, int]) -> list[str]:
    """A loop over blocks, and where each begins."""
    return [
        "for trip in range(start, stop):",
        "    rest = trip",
        f"    row = mul(whole_mod(rest, {counts[0]}), {block[0]})",
        f"    rest = whole_div(rest, {counts[0]})",
        f"    column = mul(whole_mod(rest, {counts[1]}), {block[1]})",
        f"    rest = whole_div(rest, {counts[1]})",
        *(f"    {line}" for line in _outer(plan)),
    ]


def _elements(plan: Transposition, block: tuple[int, int], counts: tuple[int, int]) -> list[str]:
    """Blocks of rows or columns that are too short for tiles."""
    kind = f"u{8 * plan.width}"
    rows, columns = plan.rows, plan.columns
    tall, wide = block
    loops = [
        f"for r in range(row, minimum(add(row, {tall}), {rows.size})):",
        f"for c in range(column, minimum(add(column, {wide}), {columns.size})):",
    ]
    if tall > wide:
        # The longer run is the inner one.
        loops.reverse()
    return [
        *_trips(plan, block, counts),
        f"    {loops[0]}",
        f"        {loops[1]}",
        f"            value = load_{kind}(read, add(mul(c, {columns.read}), r))",
        f"            store_{kind}(written, add(mul(r, {rows.written}), c), value)",
    ]


TRANSPOSE_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType({Opcode.TRANSPOSE: lower_transpose})
"""The lowering of transposes."""
