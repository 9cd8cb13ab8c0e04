"""Lowering of everything that a loop nest computes: single operations and fusions of them."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_contract.shape import Shape
from xla_server.buffers.code import CANCELLATION, CopyThunk, KernelThunk, Value
from xla_server.codegen.instructions.intrinsics import ARITHMETIC
from xla_server.codegen.loops.collapse import Make, collapsed
from xla_server.codegen.loops.columns import column_source
from xla_server.codegen.loops.interleaved import interleaved
from xla_server.codegen.loops.nest import Nest, Source, all_nodes, source_of
from xla_server.codegen.loops.pieces import pieces_source
from xla_server.codegen.loops.short_rows import short_row_source
from xla_server.codegen.loops.stopping import is_long
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.trace.affine import Affine, linear, multi_index
from xla_server.codegen.trace.graph import Apply, Load, Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.movement import start_indices
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Index, Tracer
from xla_server.ir.module import HloInstruction


def lower_loop(lowering: Lowering, instruction: HloInstruction) -> Tree:
    """One kernel that computes every element of an instruction's result."""
    shapes = array_shapes(instruction.shape)
    values = tuple(lowering.new(shape, f"{instruction.name}.{n}") for n, shape in enumerate(shapes))
    if all(shape.element_count for shape in shapes):
        operands = kernel_operands(lowering, instruction)
        add_kernel(lowering, instruction, operands, values)
    return values if instruction.shape.is_tuple else values[0]


def add_kernel(
    lowering: Lowering,
    instruction: HloInstruction,
    operands: dict[HloInstruction, Value],
    values: Sequence[Value],
) -> None:
    """Add the kernel of an instruction over these operands, writing these values."""
    buffers = list(dict.fromkeys([*operands.values(), *values]))
    dimensions = values[0].shape.dimensions
    make = maker_of(instruction, operands, values, buffers)
    sizes, stores = interleaved(dimensions, make)
    nest = Nest(*collapsed(sizes, stores), cancellation=len(buffers))
    columns = column_source(nest)
    source = columns or pieces_source(nest, sizes, stores) or short_row_source(nest)
    source = _glue_if_short(source or source_of(nest), nest)
    used = {node.argument for node in all_nodes(nest.stores) if isinstance(node, Load)}
    word = [CANCELLATION] if is_long(source.work) else []
    lowering.add(
        KernelThunk(
            instruction.name,
            source.text,
            source.trips,
            source.work,
            (*buffers, *word),
            reads=tuple(value for n, value in enumerate(buffers) if n in used),
            writes=tuple(values),
            # Columns write their initial values before they read anything.
            in_place=() if columns else in_place_pairs(nest, buffers),
        )
    )


def maker_of(
    instruction: HloInstruction,
    operands: Mapping[HloInstruction, Value],
    values: Sequence[Value],
    buffers: Sequence[Value],
) -> Make:
    """Return what makes the stores of an element of each result, in a kernel over these buffers."""
    numbers = {operand: buffers.index(value) for operand, value in operands.items()}
    dimensions = values[0].shape.dimensions

    def make(index: Index) -> Sequence[Store]:
        tracer = Tracer(RULES, numbers)
        place = linear(index, dimensions)
        stores = []
        for number, value in enumerate(values):
            shape = value.shape
            # A convolution and what is made of it may have other dimensions over the same places.
            at = index if shape.dimensions == dimensions else multi_index(place, shape.dimensions)
            node = tracer.value(instruction, at, number)
            stores.append(Store(buffers.index(value), KERNEL_TYPE[shape.element_type], place, node))
        return stores

    return make


_SHORT = 256
"""Operations of a kernel that take less time than starting it, from registers or from memory: a
fold of 64 partial sums has 195."""


def _glue_if_short(source: Source, nest: Nest) -> Source:
    """A kernel of one number that is not worth its compiler's time says so."""
    functions = {node.function for node in all_nodes(nest.stores) if isinstance(node, Apply)}
    # Functions that are called stand in the text by other names.
    written = (functions - ARITHMETIC.keys()).intersection(re.findall(r"\w+", source.text))
    if source.trips > 1 or source.work > _SHORT or written:
        return source
    head = "def kernel(buffers, start, stop):\n"
    text = source.text.replace(head, f"{head}    glue()\n", 1)
    return dataclasses.replace(source, text=text)


def in_place_pairs(nest: Nest, buffers: Sequence[Value]) -> tuple[tuple[Value, Value], ...]:
    """Results that may be written over an operand: each element is read for itself alone."""
    offsets: dict[int, set[Affine]] = {}
    for node in all_nodes(nest.stores):
        if isinstance(node, Load):
            offsets.setdefault(node.argument, set()).add(node.offset)
    pairs = []
    if len({store.offset for store in nest.stores}) == 1:
        place = {nest.stores[0].offset}
        for store in nest.stores:
            for argument, read in offsets.items():
                old, new = buffers[argument].shape, buffers[store.argument].shape
                same = old.element_type.byte_width == new.element_type.byte_width
                if read == place and same:
                    pairs.append((buffers[store.argument], buffers[argument]))
    return tuple(pairs)


def kernel_operands(lowering: Lowering, instruction: HloInstruction) -> dict[HloInstruction, Value]:
    """The operands that a kernel reads from buffers: all but constants of one element."""
    return {
        operand: lowering.array(operand)
        for operand in instruction.operands
        if not is_literal(operand)
    }


def is_literal(instruction: HloInstruction) -> bool:
    """Whether an instruction is a constant that stands in the text of kernels."""
    return instruction.opcode is Opcode.CONSTANT and not instruction.shape.dimensions


def array_shapes(shape: Shape) -> tuple[Shape, ...]:
    """The arrays of a result: itself, or the elements of a flat tuple."""
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def lower_dynamic_update_slice(lowering: Lowering, i: HloInstruction) -> Tree:
    """The operand copied, which is nothing where it may be overwritten, and the box stored."""
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    lowering.add(CopyThunk(result, lowering.array(i.operands[0])))
    update = i.operands[1]
    if not update.shape.element_count:
        return result
    operands = {
        operand: lowering.array(operand) for operand in i.operands[1:] if not is_literal(operand)
    }
    buffers = list(dict.fromkeys([*operands.values(), result]))
    numbers = {operand: buffers.index(value) for operand, value in operands.items()}
    sizes = i.shape.dimensions

    def make(index: Index) -> Sequence[Store]:
        tracer = Tracer(RULES, numbers)
        starts = start_indices(tracer, i, 2, len(sizes))
        place = tuple(
            position + tracer.clamped(starts[d], sizes[d] - update.shape.dimensions[d])
            for d, position in enumerate(index)
        )
        kernel_type = KERNEL_TYPE[i.shape.element_type]
        return [
            Store(len(buffers) - 1, kernel_type, linear(place, sizes), tracer.value(update, index))
        ]

    source = source_of(nest := Nest(*collapsed(update.shape.dimensions, make)))
    used = {node.argument for node in all_nodes(nest.stores) if isinstance(node, Load)}
    lowering.add(
        KernelThunk(
            i.name,
            source.text,
            source.trips,
            source.work,
            tuple(buffers),
            reads=tuple(value for n, value in enumerate(buffers) if n in used),
            writes=(result,),
            updates=(result,),
        )
    )
    return result


LOOP_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {
        **{
            opcode: lower_loop
            for opcode in RULES
            if opcode not in (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.FUSION)
        },
        Opcode.DYNAMIC_UPDATE_SLICE: lower_dynamic_update_slice,
    }
)
