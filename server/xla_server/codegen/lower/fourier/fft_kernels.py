"""Kernels of Fourier transforms: load a block of lines, transform it, store it.

A work item is a block: as many lines as vectors have lanes, or fewer. All blocks of a kernel cost
the same, so work is balanced for any number of threads, and no result depends on the number.
"""

import dataclasses
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Items, Loop, Names
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.fourier.fft_block import (
    SOURCE,
    TABLES,
    TARGET,
    BlockTransform,
    Tables,
    scratch_bytes,
)
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.routines.fourier.fourier_moves import move_routine
from xla_server.codegen.routines.fourier.fourier_text import WIDTH, pair_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class LineLayout:
    """Layout of a kernel's lines in a value; strides are in bytes, as is an element's `width`.

    `steps` are the strides of outer dimensions, `inner_step` the one between lines and
    `element_step` the one along a line. With `split` = (size, step), lines come in groups of
    `size`, and `step` is that from group to group.
    """

    value: Value
    width: int
    steps: tuple[int, ...]
    inner_step: int
    element_step: int
    is_real: bool = False
    split: tuple[int, int] | None = None

    def form(self, lanes: int, count: int) -> str:
        """Return how lines of `count` elements are loaded or stored, by vectors of `lanes`."""
        if self.split is None and self.element_step == self.width:
            span = lanes if self.is_real else lanes // 2
            return "rows" if count >= span else "short_rows"
        if self.split is None and self.inner_step == self.width:
            return "columns"
        return "lines"


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """A block at an address: its number, outer indices, first line and number of lines.

    Real and imaginary parts are exchanged for an inverse transform.
    """

    address: ir.Expression
    real: ir.Expression
    imaginary: ir.Expression
    number: ir.Expression
    outer: Sequence[ir.Expression]
    first: ir.Expression
    lines: ir.Expression


BlockBuilder: TypeAlias = Callable[[Body, Tile], None]
"""Appends statements that transform a block within its memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The direction of a transform, the factor of its results, and the number of stored elements.

    If `limit` is not 0, only `limit` elements of each line are stored.
    """

    is_inverse: bool = False
    factor: float = 1.0
    limit: int = 0


@dataclasses.dataclass(slots=True)
class BlockKernel:
    """A kernel over blocks of lines: `inner` of each index of outer dimensions of `sizes`.

    It loads `loaded` elements of each line from `source` and stores `stored` at `target`, both of
    the real type `kind`. `transform` is the length of the transform, 0 for none. `before` builds
    code on the block after the load, `after` code after the transform; they may require that all
    lanes have the same outer index (`has_lane_tables`).
    """

    lowering: Lowering
    name: str
    kind: str
    sizes: tuple[int, ...]
    inner: int
    source: LineLayout
    target: LineLayout
    loaded: int
    stored: int
    transform: int
    options: Options
    tables: Tables
    before: BlockBuilder | None = None
    after: BlockBuilder | None = None
    has_lane_tables: bool = False

    def add(self) -> None:
        """Append the thunk."""
        self._merge()
        top, stack = Body(), list[ir.StackArray]()
        with Items(top, self.items, "item") as items:
            stack += self.build(items, items.axis, ir.Address(SOURCE), ir.Address(TARGET))
        values = self.source.value, self.target.value
        add_kernel(self.lowering, self.name, top, stack, *values, self.tables)

    @property
    def items(self) -> int:
        """Work items."""
        return math.prod(self.sizes) * -(-self.inner // self.lanes)

    def build(
        self,
        body: Body,
        item: ir.Expression,
        source: ir.Expression,
        target: ir.Expression,
        suffix: str = "",
    ) -> Sequence[ir.StackArray]:
        """Build work item `item` for lines at these addresses; return its memory on the stack.

        Names end in `suffix`.
        """
        width, machine = self.lanes, self.lowering.target.machine
        blocks = -(-self.inner // width)
        count = max(self.loaded, self.stored, self.transform)
        array = ir.StackArray(f"a{suffix}", scratch_bytes(machine, count))
        transform = BlockTransform(machine, self.transform or 1, self.tables, array)
        number = body.let(f"block{suffix}", item % blocks)
        rest = body.let(f"rest{suffix}", item // blocks)
        first = body.let(f"first{suffix}", number * width)
        lines = ir.integer_op("minimum", width, ir.whole(self.inner) - first)
        span = first, body.let(f"lines{suffix}", lines)
        names, outer = Names(f"o{suffix}_"), list[ir.Expression]()
        for dimension in reversed(range(len(self.sizes))):
            index = body.let(names("i"), rest % self.sizes[dimension])
            rest = body.let(names("n"), rest // self.sizes[dimension])
            source = source + index * self.source.steps[dimension]
            target = target + index * self.target.steps[dimension]
            outer.insert(0, index)
        loaded, result = (
            Tile(ir.Address(each), *self._parts(each), number, outer, *span)
            for each in (array, transform.result)
        )
        self._move(body, source, loaded, is_load=True)
        if self.before:
            self.before(body, loaded)
        body.add(*transform.body.statements)
        if self.after:
            self.after(body, result)
        if self.options.limit:
            self._store_to_limit(body, target, result, suffix)
        else:
            self._move(body, target, result, is_load=False)
        return transform.stack

    def _parts(self, array: ir.StackArray) -> tuple[ir.Expression, ir.Expression]:
        one: ir.Expression = ir.Address(array)
        other = one + self.lowering.target.machine.vector_bytes
        return (other, one) if self.options.is_inverse else (one, other)

    def _merge(self) -> None:
        """Merge the outer dimension into the lines if strides allow it."""
        layouts = (self.source, self.target)
        if len(self.sizes) != 1 or self.options.limit or self.has_lane_tables:
            return
        if any(layout.split for layout in layouts):
            return
        steps = [(layout.steps[0], layout.inner_step) for layout in layouts]
        changes: list[dict[str, Any]]
        if self.inner == 1:
            changes = [{"inner_step": outer} for outer, _ in steps]
        elif all(outer == self.inner * inner for outer, inner in steps):
            changes = [{}, {}]
        else:
            return
        self.source, self.target = (
            dataclasses.replace(layout, steps=(), **change)
            for layout, change in zip(layouts, changes, strict=True)
        )
        self.inner *= self.sizes[0]
        self.sizes = ()

    @property
    def lanes(self) -> int:
        """Lines of a block: real numbers of a vector."""
        return self.lowering.target.machine.lanes(WIDTH[self.kind])

    def _store_to_limit(self, body: Body, target: ir.Expression, block: Tile, suffix: str) -> None:
        """Store rows of the result up to the one that the limit cuts."""
        layout, step = self.target, self.target.element_step
        apart, pair = step // layout.width, pair_bytes(self.lowering.target.machine)
        routine = move_routine(self.kind, "columns", is_load=False, is_real=layout.is_real)
        first, lines = block.first, block.lines
        ends = ir.whole(self.options.limit + apart) - first - lines
        full = body.let(f"full{suffix}", ends // apart)
        part = body.let(f"part{suffix}", ir.whole(self.options.limit) - full * apart - first)
        begin = body.let(f"begin{suffix}", target + first * layout.inner_step)
        operands = move_operands(
            begin, block.real, block.imaginary, lines, step, full, self.options.factor
        )
        body.call(routine, operands)
        behind = begin + full * step, block.real + full * pair, block.imaginary + full * pair
        rest = ir.integer_op("minimum", part, lines)
        body.call(routine, move_operands(*behind, rest, step, 1, self.options.factor))

    def _move(self, body: Body, at: ir.Expression, block: Tile, *, is_load: bool) -> None:
        """Load the lines from an address, or store them there."""
        layout = self.source if is_load else self.target
        count = self.loaded if is_load else self.stored
        form = layout.form(self.lanes, count)
        routine = move_routine(self.kind, form, is_load=is_load, is_real=layout.is_real)
        parts, of_lines = (block.real, block.imaginary), dict[str, int | ir.Expression]()
        lines, ahead = block.lines, layout.inner_step if "rows" in form else layout.element_step
        if form == "lines":
            size, step = layout.split or (self.inner, 0)
            lines = ir.whole(self.inner)
            of_lines = line_operands(block.first, size, step, layout.inner_step)
        else:
            at = at + block.first * layout.inner_step
        operands = move_operands(at, *parts, lines, ahead, count, self.options.factor)
        body.call(routine, operands | of_lines)


def move_operands(
    memory: ir.Expression,
    real: ir.Expression,
    imaginary: ir.Expression,
    lines: int | ir.Expression,
    ahead: int,
    count: int | ir.Expression,
    factor: float = 1.0,
) -> dict[str, int | ir.Expression]:
    """Return the operands of a load or store of lines."""
    return {
        "memory": memory,
        "real": real,
        "imaginary": imaginary,
        "lines": lines,
        "ahead": ahead,
        "count": count,
        "factor": bits_of(factor),
    }


def line_operands(
    first: int | ir.Expression, inner: int, outer_step: int, inner_step: int
) -> dict[str, int | ir.Expression]:
    """Return the operands for the addresses of lines in two dimensions."""
    return {"first": first, "inner": inner, "outer_step": outer_step, "inner_step": inner_step}


def add_fused(first: BlockKernel, then: BlockKernel, groups: int, byte_size: int) -> None:
    """Append a thunk of two kernels, the second of which reads the first one's results.

    A work item is one of `groups` of both kernels' work items; they share scratch memory of
    `byte_size` per thread. Both have one outer dimension, along which that memory has stride 0.
    """
    top, middle = Body(), ir.StackArray("middle", byte_size)
    stack = [middle]
    between = ir.Address(middle)
    steps = ((first, ir.Address(SOURCE), between, ""), (then, between, ir.Address(TARGET), "2"))
    with Items(top, groups, "group") as items:
        for kernel, source, target, suffix in steps:
            share = kernel.items // groups
            low, high = (group * share for group in (items.axis + 0, items.axis + 1))
            with Loop(items, f"item{suffix}", high, low, iterations=share) as loop:
                stack += kernel.build(loop, loop.axis, source, target, suffix)
    values = first.source.value, then.target.value
    add_kernel(first.lowering, then.name, top, stack, *values, first.tables)


def add_kernel(
    lowering: Lowering,
    name: str,
    top: Body,
    stack: Sequence[ir.StackArray],
    source: Value,
    target: Value,
    tables: Tables | None = None,
    effort: Effort = Effort.UNOPTIMISED,
) -> None:
    """Append the thunk of a kernel that reads one value, with constants, and writes another.

    An unoptimised kernel only calls routines.
    """
    buffers, arguments = [TARGET, SOURCE], [target, source]
    if tables is not None and tables.byte_size:
        buffers.append(TABLES)
        arguments.append(_constant(lowering, f"{name}.roots", tables.array()))
    kernel = Kernel(tuple(buffers), tuple(stack), tuple(top.statements), effort)
    updates = (target,) if source is target else ()
    lowering.add(kernel_thunk(name, kernel, arguments, updates=updates))


def _constant(lowering: Lowering, name: str, array: Any) -> Value:
    element = ElementType.from_dtype(array.dtype)
    value = lowering.new(Shape.array(element, array.shape), name)
    lowering.constants[value] = array
    return value


def bits_of(factor: float) -> int:
    """Return the bits of a number in f64, as an integer."""
    (bits,) = struct.unpack("<q", struct.pack("<d", factor))
    return int(bits)
