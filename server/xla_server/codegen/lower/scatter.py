"""Lowering of scatter: one kernel over the updates, shared out where that changes no result."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_server.buffers.code import CANCELLATION, CopyThunk, KernelThunk
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.loops.element_text import element_text
from xla_server.codegen.loops.stopping import is_long
from xla_server.codegen.lower.loops import array_shapes
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.lower.scatter_space import UPDATE_WORK, Ranges, Space
from xla_server.codegen.lower.scatter_text import Buffers, ScatterText
from xla_server.ir.module import HloInstruction

_PLAIN = 4
"""Lines of a combiner that cost about as much as loading and storing what it combines."""


def lower_scatter(lowering: Lowering, i: HloInstruction) -> Tree:
    """The operands copied, which is nothing where they may be overwritten, and updates combined."""
    count = len(i.operands) // 2
    shapes = array_shapes(i.shape)
    results = tuple(lowering.new(shape, f"{i.name}.{n}") for n, shape in enumerate(shapes))
    operands = [lowering.array(operand) for operand in i.operands]
    for result, operand in zip(results, operands[:count], strict=True):
        lowering.add(CopyThunk(result, operand))
    updates = i.operands[count + 1].shape
    if not updates.element_count or not shapes[0].element_count:
        return results if i.shape.is_tuple else results[0]
    types = [shape.element_type for shape in shapes]
    names = [(f"old{n}", kind) for n, kind in enumerate(types)]
    names += [
        (f"new{n}", value.shape.element_type) for n, value in enumerate(operands[count + 1 :])
    ]
    combined = element_text(i.called[0], names, types)
    space = Space.of(i.attributes.dimension_numbers, shapes[0], updates)
    width = max(kind.byte_width for kind in types)
    weight = 1 + len(combined.lines) // _PLAIN
    division = space.division(i.attributes.unique_indices, weight, width)
    trips = division.trips if division else 1
    whole = UPDATE_WORK * weight * updates.element_count
    work = whole // trips
    if isinstance(division, Ranges):
        work += UPDATE_WORK * space.vectors
    read = tuple(dict.fromkeys(operands[count:]))
    arguments = (*read, *results)
    word = ""
    # All vectors may be in one of the ranges.
    if is_long(whole if isinstance(division, Ranges) else work):
        word = f"b{len(arguments)}"
        arguments = (*arguments, CANCELLATION)
    buffers = Buffers(
        f"b{arguments.index(operands[count])}",
        tuple((f"b{arguments.index(value)}", value.shape.element_type) for value in results),
        tuple(
            (f"b{arguments.index(value)}", value.shape.element_type)
            for value in operands[count + 1 :]
        ),
        word,
    )
    kernel = ScatterText(
        space, i.attributes.dimension_numbers, i.operands[count].shape, buffers, combined
    )
    source = SourceKernel(kernel.text(len(arguments), division))
    lowering.add(
        KernelThunk(i.name, source, trips, work, arguments, read, results, updates=results)
    )
    return results if i.shape.is_tuple else results[0]


SCATTER_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType({Opcode.SCATTER: lower_scatter})
