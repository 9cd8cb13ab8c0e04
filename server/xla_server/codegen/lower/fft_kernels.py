"""Kernels of Fourier transforms: loads of blocks of lines, what is done to them, and stores.

A work item is a block: as many lines as vectors have lanes, or fewer. All of a kernel's blocks cost
the same, so work is shared evenly whatever the number of threads, and no result depends on it.
"""

import dataclasses
import math
import struct
from collections.abc import Sequence
from typing import Any

from xla_contract.element_type import ElementType
from xla_contract.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.lower.fft_block import BlockText, Tables, scratch_bytes
from xla_server.codegen.lower.fft_plan import block_cost
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.routines.fourier_moves import move_name
from xla_server.codegen.routines.fourier_text import WIDTH, pair_bytes

MIN_USED_LANES = 0.6
"""Share of lanes below which lines are gathered across outer dimensions: a gather costs as much as
the passes of a short line."""


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """Where the lines of a kernel are in a value; steps are in bytes, as is an element's `width`.

    `steps` are those of the outer dimensions, `inner_step` is that from line to line and
    `element_step` that along a line. With `split` = (size, step), lines come in groups of `size`,
    and `step` is that from group to group.
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
class KernelText:
    """Lines before a loop over `items`, its body, and the operations of an item."""

    prologue: list[str]
    body: list[str]
    items: int
    work: int


@dataclasses.dataclass(slots=True)
class BlockKernel:
    """A kernel over blocks of lines.

    Args:
        lowering: Where the row goes.
        name: The row's name.
        kind: The real type.
        sizes: Outer dimensions.
        inner: Lines of each.
        source: Where lines are loaded from, `loaded` elements of each.
        target: Where they are stored, `stored` elements of each.
        transform: The length of the transform; 0 for none.
        is_inverse: Whether it is an inverse one.
        factor: What results are multiplied by.
        before: Lines of text about block `a`, with parts at `real` and `imaginary`, after the load.
        after: The same about block `result`, after the transform.
        tables: The constants.
        has_lane_tables: Whether `after` needs lanes to be lines of one outer index.
        limit: Elements of the target's lines where they are less than the transform's, else 0.
    """

    lowering: Lowering
    name: str
    kind: str
    sizes: tuple[int, ...]
    inner: int
    source: Side
    target: Side
    loaded: int
    stored: int
    transform: int
    is_inverse: bool = False
    factor: float = 1.0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    tables: Tables = dataclasses.field(default_factory=lambda: Tables("f32"))
    has_lane_tables: bool = False
    limit: int = 0

    def add(self) -> None:
        """Append the row."""
        self._merge()
        text = self.text("source", "target")
        lines = [*text.prologue, "for item in range(start, stop):", *_indented(text.body)]
        add_kernel(
            self.lowering,
            self.name,
            lines,
            text.items,
            text.work,
            self.source.value,
            self.target.value,
            self.tables,
        )

    def text(self, source: str, target: str, suffix: str = "") -> "KernelText":
        """Return the kernel's text for lines at these addresses; its names end in `suffix`."""
        width = self.lanes
        blocks = -(-self.inner // width)
        machine = self.lowering.machine
        count = max(self.loaded, self.stored, self.transform)
        room = scratch_bytes(machine, count)
        text = BlockText(machine, self.transform, self.tables, suffix) if self.transform else None
        block = f"a{suffix}"
        result = text.result if text else block
        real, imaginary = 0, machine.vector_bytes
        if self.is_inverse:
            real, imaginary = imaginary, real
        prologue = [
            f"{block} = room_for({room})",
            *([f"b{suffix} = room_for({room})"] if text and text.lines else []),
            *(text.prologue if text else []),
        ]
        body = [
            f"block = whole_mod(item, {blocks})",
            f"rest = whole_div(item, {blocks})",
            f"first = block * {width}",
            f"lines = minimum({width}, {self.inner} - first)",
        ]
        places = [[name] for name in (source, target)]
        for number in reversed(range(len(self.sizes))):
            body.append(f"o{number} = whole_mod(rest, {self.sizes[number]})")
            body.append(f"rest = whole_div(rest, {self.sizes[number]})")
            for terms, side in zip(places, (self.source, self.target), strict=True):
                terms.append(f"o{number} * {side.steps[number]}")
        before = [f"real = {block} + {real}", f"imaginary = {block} + {imaginary}"]
        after = [f"real = {result} + {real}", f"imaginary = {result} + {imaginary}"]
        body += [
            f"source_at = {' + '.join(places[0])}",
            f"target_at = {' + '.join(places[1])}",
            self._load(f"{block} + {real}", f"{block} + {imaginary}"),
            *(before if self.before else []),
            *self.before,
            *(text.lines if text else []),
            *(after if self.after else []),
            *(line.replace("RESULT", result) for line in self.after),
            *self._store(f"{result} + {real}", f"{result} + {imaginary}"),
        ]
        cost = block_cost(self.transform) if self.transform else 12 * count
        return KernelText(prologue, body, math.prod(self.sizes) * blocks, int(cost))

    def _merge(self) -> None:
        """Join the last outer dimension to the lines where that is one step, or fills vectors."""
        if len(self.sizes) != 1 or self.limit or self.has_lane_tables:
            return
        sides = (self.source, self.target)
        if any(side.split for side in sides):
            return
        steps = [(side.steps[0], side.inner_step) for side in sides]
        if self.inner == 1 or all(outer == self.inner * inner for outer, inner in steps):
            self.source, self.target = (
                dataclasses.replace(
                    side, steps=(), inner_step=side.steps[0] if self.inner == 1 else side.inner_step
                )
                for side in sides
            )
        elif self.sizes[0] > 1 and self._used_lanes < MIN_USED_LANES:
            self.source, self.target = (
                dataclasses.replace(side, steps=(), split=(self.inner, side.steps[0]))
                for side in sides
            )
        else:
            return
        self.inner *= self.sizes[0]
        self.sizes = ()

    @property
    def lanes(self) -> int:
        """Lines of a block: real numbers of a vector."""
        return self.lowering.machine.lanes(WIDTH[self.kind])

    @property
    def _used_lanes(self) -> float:
        """The share of lanes that outer dimensions by themselves use."""
        width = self.lanes
        return self.inner / (-(-self.inner // width) * width)

    def _load(self, real: str, imaginary: str) -> str:
        return self._move("source_at", self.source, self.loaded, real, imaginary, is_load=True)

    def _store(self, real: str, imaginary: str) -> list[str]:
        side, stored = self.target, self.stored
        if not self.limit:
            return [self._move("target_at", side, stored, real, imaginary, is_load=False)]
        # Rows of the result up to the one that the limit cuts.
        apart, pair = side.element_step // side.width, pair_bytes(self.lowering.machine)
        name = move_name(self.kind, "columns", is_load=False, is_real=side.is_real)
        bits = bits_of(self.factor)
        step = side.element_step
        return [
            f"full = whole_div({self.limit + apart} - first - lines, {apart})",
            f"part = {self.limit} - full * {apart} - first",
            f"target_at = target_at + first * {side.inner_step}",
            f"{name}(target_at, {real}, {imaginary}, lines, {step}, full, {bits})",
            f"{name}(target_at + full * {step}, {real} + full * {pair}, "
            f"{imaginary} + full * {pair}, minimum(part, lines), {step}, 1, {bits})",
        ]

    def _move(
        self, place: str, side: Side, count: int, real: str, imaginary: str, *, is_load: bool
    ) -> str:
        form = side.form(self.lanes, count)
        name = move_name(self.kind, form, is_load=is_load, is_real=side.is_real)
        bits = bits_of(self.factor)
        if form == "lines":
            size, step = side.split or (self.inner, 0)
            return (
                f"{name}({place}, {real}, {imaginary}, {self.inner}, {side.element_step}, {count}, "
                f"{bits}, first, {size}, {step}, {side.inner_step})"
            )
        ahead = side.element_step if form == "columns" else side.inner_step
        begin = f"{place} + first * {side.inner_step}"
        return f"{name}({begin}, {real}, {imaginary}, lines, {ahead}, {count}, {bits})"


def add_fused(first: BlockKernel, then: BlockKernel, groups: int, byte_size: int) -> None:
    """Append a row of two kernels, the second of which reads what the first has written.

    A work item is one of `groups` of both kernels' work items, whose common memory of `byte_size`
    is the thread's own; both have one outer dimension, over which the memory has a step of 0.
    """
    texts = [first.text("source", "middle"), then.text("middle", "target", "2")]
    lines = [f"middle = room_for({byte_size})"]
    for text in texts:
        lines += text.prologue
    lines.append("for group in range(start, stop):")
    work = 0
    for text in texts:
        share = text.items // groups
        lines.append(f"    for item in range(group * {share}, (group + 1) * {share}):")
        lines += _indented(_indented(text.body))
        work += share * text.work
    add_kernel(
        first.lowering,
        then.name,
        lines,
        groups,
        work,
        first.source.value,
        then.target.value,
        first.tables,
    )


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def add_kernel(
    lowering: Lowering,
    name: str,
    lines: Sequence[str],
    items: int,
    work: int,
    source: Value,
    target: Value,
    tables: Tables | None = None,
    *,
    is_glue: bool = True,
) -> None:
    """Append the row of a kernel that reads one value, with constants, and writes another.

    One that `is_glue` calls functions and does nothing for elements itself.
    """
    others: list[Value] = [] if source is target else [source]
    names = [f"source = {'target' if source is target else 'peek_i64(buffers, 1)'}"]
    reads = list(others)
    if tables is not None and tables.byte_size:
        names.append(f"tables = peek_i64(buffers, {1 + len(others)})")
        reads.append(_constant(lowering, f"{name}.roots", tables.array()))
    text = "\n".join(
        [
            "def kernel(buffers, start, stop):",
            "    target = peek_i64(buffers, 0)",
            *(f"    {line}" for line in (*names, *lines)),
            "",
        ]
    )
    arguments = (target, *reads)
    updates = () if others else (target,)
    kernel, writes = SourceKernel(text, Effort.UNOPTIMISED if is_glue else None), (target,)
    lowering.add(
        KernelThunk(name, kernel, items, work, arguments, tuple(reads), writes, updates=updates)
    )


def _constant(lowering: Lowering, name: str, array: Any) -> Value:
    element = ElementType.from_dtype(array.dtype)
    value = lowering.new(Shape.array(element, array.shape), name)
    lowering.constants[value] = array
    return value


def bits_of(factor: float) -> int:
    """Return the bits of a number as f64."""
    (bits,) = struct.unpack("<q", struct.pack("<d", factor))
    return int(bits)
