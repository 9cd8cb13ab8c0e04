"""Operations that a loop nest can compute, and their classes by cost and access."""

import math
from collections.abc import Sequence

from xla_contract.ops.contraction.dot import product_sizes
from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.windows import running_axis
from xla_server.ir.analysis.index_maps import MAPPED
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE, EXPENSIVE
from xla_server.passes.framework.queries import is_narrow_float
from xla_server.target.capability import Capability

COSTLY = EXPENSIVE | {Opcode.MAP}
"""Operations that are not worth computing twice."""

MOVEMENT = MAPPED | {
    Opcode.CONCATENATE,
    Opcode.DYNAMIC_SLICE,
    Opcode.GATHER,
    Opcode.IOTA,
    Opcode.PAD,
}

ONE_TO_ONE = ELEMENTWISE | {Opcode.BITCAST_CONVERT, Opcode.COPY, Opcode.MAP}
"""Operations that read each operand at the index of the result's element."""

FUSIBLE = ONE_TO_ONE | MOVEMENT | {Opcode.REDUCE, Opcode.REDUCE_WINDOW}
"""Operations that may be in a fusion."""


def is_fusible(instruction: HloInstruction) -> bool:
    """Return whether an instruction may be part of a fusion."""
    return (
        instruction.opcode in FUSIBLE
        and instruction.shape.is_array
        and instruction.shape.element_count > 0
        and all(operand.shape.is_array for operand in instruction.operands)
        and not _needs_memory(instruction)
        # A kernel of its own takes one pass over the operand, a loop nest one for each element.
        and running_axis(instruction) is None
    )


def is_variadic_reduction(i: HloInstruction) -> bool:
    """Return whether an instruction reduces several arrays at once: a fusion may end in it."""
    return (
        i.opcode is Opcode.REDUCE
        and i.shape.is_tuple
        and all(operand.shape.element_count for operand in i.operands)
        and bool(i.shape.tuple_shapes[0].element_count)
    )


def _needs_memory(i: HloInstruction) -> bool:
    """Return whether bits are read from memory: loops make signalling NaNs of F16 quiet ones.

    Also if one element becomes several, or several one.
    """
    if i.opcode is not Opcode.BITCAST_CONVERT:
        return False
    shapes = (i.shape, i.operands[0].shape)
    is_widened = any(is_narrow_float(shape.element_type) for shape in shapes)
    return is_widened or shapes[0].rank != shapes[1].rank


def is_trivial(instruction: HloInstruction) -> bool:
    """Return whether an instruction is cheaper to recompute for each reader than to store."""
    is_repeated = instruction.opcode is Opcode.BROADCAST
    return instruction.opcode is Opcode.IOTA or (
        is_repeated and is_scalar_constant(instruction.operands[0])
    )


def is_scalar_constant(i: HloInstruction) -> bool:
    """Return whether an instruction is a constant that kernels have as an immediate."""
    return i.opcode is Opcode.CONSTANT and not i.shape.dimensions


def is_tiled(instruction: HloInstruction, capability: Capability) -> bool:
    """Return whether an instruction is a large transpose by tiles, which breaks up all runs."""
    if instruction.opcode is not Opcode.TRANSPOSE or not instruction.shape.rank:
        return False
    permutation, sizes = instruction.attributes.permutation, instruction.shape.dimensions
    last = instruction.shape.rank - 1
    if permutation[last] == last:
        return False
    rows = _merged_size(permutation, sizes, permutation.index(last))
    columns = _merged_size(permutation, sizes, last)
    return capability.is_tiled_transpose(instruction.shape.element_count, rows, columns)


def continues_product(dot: HloInstruction, capability: Capability) -> bool:
    """Return whether the kernel of a dot can compute the epilogue of its results."""
    lhs, rhs = (operand.shape for operand in dot.operands)
    sizes = product_sizes(lhs.dimensions, rhs.dimensions, dot.attributes.dimension_numbers)
    types = {lhs.element_type, rhs.element_type}
    return capability.continues_product(types, dot.shape.element_type, sizes)


def _merged_size(permutation: Sequence[int], sizes: Sequence[int], last: int) -> int:
    """Return the elements of `last` and of its neighbours before it in a transpose's result.

    Only dimensions that are adjacent in the operand, too, count.
    """
    first = last
    while first and permutation[first - 1] + 1 == permutation[first]:
        first -= 1
    return math.prod(sizes[first : last + 1])


def repeats(reader: HloInstruction, operand: HloInstruction, max_selected_operands: int) -> bool:
    """Return whether a reader reads the same element of an operand many times.

    A concatenate of more than `max_selected_operands` counts as one that does.
    """
    if reader.opcode is Opcode.BROADCAST:
        # A value that is constant along a row is computed once, at the head of the row.
        is_row = bool(operand.shape.rank) and reader.attributes.dimensions == tuple(
            range(operand.shape.rank)
        )
        return bool(reader.shape.element_count > operand.shape.element_count) and not is_row
    if reader.opcode is Opcode.REDUCE_WINDOW:
        return any(
            d.size > d.stride or d.window_dilation > 1 or d.base_dilation > 1
            for d in reader.attributes.window.dimensions
        )
    if reader.opcode is Opcode.CONCATENATE:
        return len(reader.operands) > max_selected_operands
    return reader.opcode is Opcode.GATHER
