"""Lowering of select-and-scatter: a walk over the windows, in the order of the sources.

Sources of one place are combined in order, so threads share the work only along a dimension in
which the window is a single element and each source stays with its own.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from xla_contract.dimension_numbers import WindowDimension
from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode
from xla_server.buffers.code import CANCELLATION, KernelThunk
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.loops.element_text import element_text, load_text, store_text
from xla_server.codegen.loops.stopping import is_long, span_of, stop_lines
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.ir.module import HloInstruction

_BLOCK = 64
"""How many neighbours along the last dimension one trip does."""

_NAMED = 4
"""Buffers of a kernel that does not look whether to stop."""


def lower_select_and_scatter(lowering: Lowering, i: HloInstruction) -> Tree:
    """The initial value everywhere, and each source combined in where its window selects."""
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    values = tuple(lowering.array(operand) for operand in i.operands)
    read = tuple(dict.fromkeys(values))
    arguments = (*read, result)
    numbers = [arguments.index(value) for value in (*values, result)]
    window, sizes = i.attributes.window.dimensions, i.shape.dimensions
    own = [n for n, d in enumerate(window) if d == WindowDimension(1) and sizes[n] > 1]
    split = min(own, default=-1)
    block = _BLOCK if split == len(sizes) - 1 else 1
    trips = -(-sizes[split] // block) if own else 1
    elements = math.prod(d.size for d in window) * i.operands[1].shape.element_count
    work = (i.shape.element_count + 8 * elements) // trips
    if is_long(work):
        arguments = (*arguments, CANCELLATION)
        numbers.append(arguments.index(CANCELLATION))
    lowering.add(
        KernelThunk(
            i.name,
            SourceKernel(_source(i, numbers, split, block)),
            trips,
            work,
            arguments,
            read,
            (result,),
        )
    )
    return result


def _source(i: HloInstruction, numbers: Sequence[int], split: int, block: int) -> str:
    window, sizes = i.attributes.window.dimensions, i.shape.dimensions
    source = i.operands[1].shape
    kind, element = source.element_type, i.operands[0].shape.element_type
    pairs = [("kept", element), ("candidate", element)]
    stays = element_text(i.called[0], pairs, [ElementType.PRED], "s")
    pairs = [("old", i.shape.element_type), ("new", kind)]
    combined = element_text(i.called[1], pairs, [i.shape.element_type], "c")
    part = f"t * {block}", f"minimum((t + 1) * {block}, {sizes[split]})"
    lines = _Lines()
    lines.open_loops("p", sizes, split, part)
    place = _flat([f"p{n}" for n in range(len(sizes))], sizes)
    lines.add(store_text(i.shape.element_type, "result", place, "initial"))
    lines.depth = 2
    looking = -1
    if len(numbers) > _NAMED:
        looking, _ = span_of([block if n == split else d for n, d in enumerate(source.dimensions)])
        # An element of the last dimension is too little to look for.
        looking = min(looking, source.rank - 2)
    lines.open_loops("o", source.dimensions, split, part, looking)
    outside = lines.depth
    lines.add("kept_at = -1")
    lines.add(f"kept = {load_text(element, 'operand', '0')}")
    positions = []
    for n, (d, size) in enumerate(zip(window, sizes, strict=True)):
        position = f"o{n}"
        if d != WindowDimension(1):
            lines.open(f"for w{n} in range({d.size}):")
            position = f"p{n}"
            lines.add(f"{position} = o{n} * {d.stride} + w{n} - {d.padding_low}")
            last = (source.dimensions[n] - 1) * d.stride + d.size - 1 - d.padding_low
            if d.padding_low > 0:
                lines.open(f"if {position} >= 0:")
            if last >= size:
                lines.open(f"if {position} < {size}:")
        positions.append(position)
    lines.add(f"at = {_flat(positions, sizes)}")
    lines.add(f"candidate = {load_text(element, 'operand', 'at')}")
    lines.add(*stays.lines)
    lines.open(f"if bit_or(bit_not({stays.results[0]}), kept_at < 0):")
    lines.add("kept = candidate", "kept_at = at")
    lines.depth = outside
    lines.open("if kept_at >= 0:")
    at = _flat([f"o{n}" for n in range(source.rank)], source.dimensions)
    lines.add(f"old = {load_text(i.shape.element_type, 'result', 'kept_at', 'reload')}")
    lines.add(f"new = {load_text(kind, 'source', at)}", *combined.lines)
    lines.add(store_text(i.shape.element_type, "result", "kept_at", combined.results[0]))
    names = ("operand", "source", "first", "result", "cancelled")
    return "\n".join(
        [
            *stays.constants,
            *combined.constants,
            "def kernel(buffers, start, stop):",
            *(f"    {a} = peek_i64(buffers, {n})" for a, n in zip(names, numbers, strict=False)),
            f"    initial = {load_text(i.operands[2].shape.element_type, 'first', '0')}",
            "    for t in range(start, stop):",
            *lines.text,
            "",
        ]
    )


class _Lines:
    """The body of a kernel while it is written."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.depth = 2

    def add(self, *lines: str) -> None:
        """Lines of the block that is open."""
        self.text += ["    " * self.depth + line for line in lines]

    def open(self, head: str) -> None:
        """A line with a block."""
        self.add(head)
        self.depth += 1

    def open_loops(
        self,
        name: str,
        sizes: Iterable[int],
        split: int,
        part: tuple[str, str],
        looking: int = -1,
    ) -> None:
        """Loops over all dimensions, of one of them over a part; one looks whether to stop."""
        for n, size in enumerate(sizes):
            bounds = ", ".join(part) if n == split else str(size)
            self.open(f"for {name}{n} in range({bounds}):")
            if n == looking:
                self.text += stop_lines(self.depth)


def _flat(place: Sequence[str], sizes: Sequence[int]) -> str:
    """The number of an element in a dense array."""
    terms = [f"{position} * {math.prod(sizes[n + 1 :])}" for n, position in enumerate(place)]
    return " + ".join(terms) or "0"


SELECT_AND_SCATTER_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {Opcode.SELECT_AND_SCATTER: lower_select_and_scatter}
)
