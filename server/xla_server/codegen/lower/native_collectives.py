"""Lowering of collectives whose participants meet in native code.

A kernel computes the results of one participant from the operands of its group's members: copies
in shared memory, or large ones in place. It is a fusion of the collective's computation, whose
parameters are these operands. A reduction has the order, the start value and the types of
`ops/collectives/group_reduction.py`, so it has the bits of the host's.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.control.fusion import FusionAttributes, FusionKind
from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.ops.indexing.dynamic_slice import DynamicSliceAttributes
from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers import code as thunk_ir
from xla_server.buffers.slots import is_given
from xla_server.codegen.lower.fusion import lower_fusion
from xla_server.codegen.lower.host import lower_collective
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.execution.collectives_protocol import MAX_COPIED_BYTES, MAX_MEMBERS
from xla_server.ir.analysis.participants import Placement, placements_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ops.elementwise.elementwise_table import ROUNDED_SUMS, ROWS
from xla_server.ops.numerics.scalar_function import plain_opcode
from xla_server.passes.framework.editor import Editor
from xla_server.passes.simplify.lifting import applied, is_liftable

MAX_BYTES = 1 << 24
"""Largest size of the operands of one native collective, in bytes."""

MAX_AREA_BYTES = 1 << 24
"""Bytes of copied operands of all native collectives of a program; the host does those beyond."""

_OF_COMPLEX = frozenset({Opcode.ADD, Opcode.CONSTANT, Opcode.PARAMETER, Opcode.SUBTRACT})
"""Operations on complex numbers with the same bits in a kernel as on the host."""


def lower_native_collective(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add thunks that meet the others in native code, if that fits, else one for the host."""
    placements, before = _placements(lowering, i), len(lowering.thunks)
    host_tree = lower_collective(lowering, i)
    host = lowering.thunks[-1]
    assert isinstance(host, thunk_ir.HostThunk)
    sizes = [value.byte_size for value in host.reads]
    area = sum(sizes)
    is_carried = not lowering.carried.isdisjoint(host.reads)
    if area > MAX_COPIED_BYTES:
        is_small = area <= MAX_BYTES and len(sizes) <= thunk_ir.MAX_REFERENCES and not is_carried
        area = 0
    else:
        is_small = lowering.area_bytes + area <= MAX_AREA_BYTES
    if not placements or not all(sizes) or not is_small:
        return host_tree
    lowering.pop_thunks(before)
    results = []
    for number, operand in enumerate(host.reads):
        result = _result(lowering, _Fusion(i, number, operand, placements))
        if result is None:
            lowering.pop_thunks(before)
            return lower_collective(lowering, i)
        results.append(result)
    kernels = tuple(map(_of_collective, lowering.pop_thunks(before)))
    lowering.area_bytes += area
    end = thunk_ir.Label(f"{i.name}.met")
    host = dataclasses.replace(host, writes=tuple(results))
    collective = thunk_ir.CollectiveThunk(host, i, placements, kernels, end, is_carried)
    leaving = [thunk_ir.LeaveThunk(collective)] if collective.is_referenced else []
    thunks: list[thunk_ir.Thunk] = [collective, *kernels, *leaving, end]
    for thunk in thunks:
        lowering.add(thunk)
    return tuple(results) if i.shape.is_tuple else results[0]


def lower_number(lowering: Lowering, i: HloInstruction) -> Tree:
    """Copy the participant's number, which is written before the run begins."""
    number = lowering.numbers.setdefault(i.opcode, thunk_ir.Value(i.shape, str(i.opcode)))
    result = lowering.new(i.shape, i.name)
    lowering.copy(result, number)
    return result


def _placements(lowering: Lowering, i: HloInstruction) -> Sequence[Placement]:
    """The placement of each participant; none if the host does the collective."""
    if i.called and not _folds_natively(*i.called):
        return ()
    try:
        found = placements_of(i, lowering.grid)
    except ShapeError:
        return ()
    return found if 2 <= max(len(each.members) for each in found) <= MAX_MEMBERS else ()


def _folds_natively(reducer: HloComputation) -> bool:
    """Return whether a kernel reduces to the same bits as the host: it approximates no function."""
    return is_liftable(reducer) and all(
        i.opcode in _OF_COMPLEX
        if i.shape.element_type.is_complex
        else i.opcode not in ROWS or ROWS[i.opcode].ulps is None
        for i in reducer.instructions
    )


class _Fusion:
    """Builder of the fusion that computes one result."""

    def __init__(
        self,
        i: HloInstruction,
        number: int,
        operand: thunk_ir.Value,
        placements: Sequence[Placement],
    ) -> None:
        nothing = HloComputation("", 0, [], i, ())
        self.editor = Editor(HloModule(i.name, 0, [], nothing, nothing.program_shape))
        self.instruction = i
        self.number = number
        self._operand = operand
        self.sizes = {len(each.members) for each in placements}
        self._has_zeros = any(each.position < 0 for each in placements)
        self.parameters: dict[thunk_ir.Value, HloInstruction] = {}

    def read(self, member: int, operand: int) -> HloInstruction:
        """Add a parameter for an operand of a member; either number may be BY_POSITION."""
        name = f"{self._operand.name}.{member}"
        shape = self.instruction.operands[self.number].shape
        return self._parameter(thunk_ir.Gathered(self._operand.shape, name, member, operand), shape)

    def of_all(self) -> list[HloInstruction]:
        """Add parameters for the operands of all members of the largest group."""
        return [self.read(member, self.number) for member in range(max(self.sizes))]

    def word(self, value: thunk_ir.Value) -> HloInstruction:
        """POSITION or GROUP_SIZE."""
        return self._parameter(value, value.shape)

    def select(
        self, word: thunk_ir.Value, least: int, result: HloInstruction, other: HloInstruction
    ) -> HloInstruction:
        """`result` if POSITION or GROUP_SIZE is `least` or more, else `other`."""
        editor = self.editor
        low = editor.constant(least, ElementType.S64)
        test = editor.compare(self.word(word), low, ComparisonDirection.GE)
        wide = editor.broadcast(test, (), result.shape.dimensions)
        return editor.add(Opcode.SELECT, (wide, result, other))

    def or_zeros(self, result: HloInstruction) -> HloInstruction:
        """`result` for participants that have a position, zeros for others."""
        if not self._has_zeros:
            return self.editor.add(Opcode.COPY, (result,))
        return self.select(thunk_ir.POSITION, 0, result, self.editor.zeros(result.shape))

    def _parameter(self, value: thunk_ir.Value, shape: Shape) -> HloInstruction:
        if value not in self.parameters:
            self.parameters[value] = self.editor.parameter(len(self.parameters), shape)
        return self.parameters[value]


def _result(lowering: Lowering, builder: _Fusion) -> thunk_ir.Value | None:
    """Add the kernels that compute one result; None if they do not compile."""
    i, editor = builder.instruction, builder.editor
    root, values = _BUILDERS[i.opcode](builder), tuple(builder.parameters)
    parameters = tuple(builder.parameters.values())
    body = editor.computation(i.name, editor.drain(), root, parameters)
    operands = [editor.parameter(n, each.shape) for n, each in enumerate(parameters)]
    fusion = editor.add(Opcode.FUSION, operands, FusionAttributes(FusionKind.LOOP), (body,))
    fusion.name = i.name if len(i.operands) == 1 else f"{i.name}.{builder.number}"
    for each, value in zip(operands, values, strict=True):
        lowering.bind(each, value)
    result = lowering.attempt(fusion, functools.partial(lower_fusion, lowering, fusion))
    assert result is None or isinstance(result, thunk_ir.Value)
    return result


def _fold(builder: _Fusion, operands: Sequence[HloInstruction]) -> HloInstruction:
    """Reduce operands in their order; smaller groups have only the first ones.

    A participant alone keeps its operand.
    """
    editor, sizes = builder.editor, builder.sizes
    (reducer,) = builder.instruction.called
    opcode, kind = plain_opcode(reducer), reducer.root.shape.element_type
    is_wide = kind is ElementType.BF16 and opcode in ROUNDED_SUMS
    wide = ElementType.F32 if is_wide else kind
    total, *others = (editor.convert(operand, wide) for operand in operands)
    dimensions = total.shape.dimensions
    is_sum = opcode is Opcode.ADD and (is_wide or kind.dtype.isbuiltin == 1)
    if is_sum and (kind.is_floating or kind.is_complex):
        total = editor.add(Opcode.ADD, (total, editor.full(0, wide, dimensions)))
    for number, other in enumerate(others, 2):
        if is_wide and opcode is not None:
            folded = editor.add(opcode, (total, other))
        else:
            folded = applied(reducer, (total, other), dimensions, editor)
        is_whole = number <= min(sizes)
        total = folded if is_whole else builder.select(thunk_ir.GROUP_SIZE, number, folded, total)
    # The reducer may compute in another floating type than the operands have.
    result = editor.convert(total, operands[0].shape.element_type)
    return builder.select(thunk_ir.GROUP_SIZE, 2, result, operands[0]) if 1 in sizes else result


def _joined(builder: _Fusion, operands: Sequence[HloInstruction], dimension: int) -> HloInstruction:
    return builder.editor.add(Opcode.CONCATENATE, operands, ConcatenateAttributes(dimension))


def _exchanged(builder: _Fusion) -> HloInstruction:
    dimension = builder.instruction.attributes.split_dimension
    if dimension is None:
        return builder.or_zeros(builder.read(builder.number, thunk_ir.BY_POSITION))
    return _joined(builder, _own_blocks(builder, dimension), dimension)


def _own_blocks(builder: _Fusion, dimension: int) -> list[HloInstruction]:
    """The block of each member's operand for this participant."""
    editor, arrays = builder.editor, builder.of_all()
    sizes = list(arrays[0].shape.dimensions)
    sizes[dimension] //= len(arrays)
    step = editor.constant(sizes[dimension], ElementType.S64)
    starts = [editor.constant(0, ElementType.S64) for _ in sizes]
    starts[dimension] = editor.add(Opcode.MULTIPLY, (builder.word(thunk_ir.POSITION), step))
    box = DynamicSliceAttributes(tuple(sizes))
    return [editor.add(Opcode.DYNAMIC_SLICE, (array, *starts), box) for array in arrays]


def _of_collective(thunk: object) -> thunk_ir.KernelThunk:
    """The kernel without the operands of members, which have no memory in this run."""
    assert isinstance(thunk, thunk_ir.KernelThunk)
    reads = tuple(value for value in thunk.reads if not is_given(value))
    return dataclasses.replace(thunk, reads=reads, in_place=())


_BUILDERS: Mapping[Opcode, Callable[[_Fusion], HloInstruction]] = {
    Opcode.ALL_GATHER: lambda m: _joined(m, m.of_all(), m.instruction.attributes.dimension),
    Opcode.ALL_REDUCE: lambda m: _fold(m, m.of_all()),
    Opcode.ALL_TO_ALL: _exchanged,
    Opcode.COLLECTIVE_BROADCAST: lambda m: m.or_zeros(m.read(0, m.number)),
    Opcode.COLLECTIVE_PERMUTE: lambda m: m.or_zeros(m.read(thunk_ir.BY_POSITION, m.number)),
    Opcode.COLLECTIVE_REDUCE: lambda m: _fold(m, m.of_all()),
    Opcode.REDUCE_SCATTER: lambda m: _fold(m, _own_blocks(m, m.instruction.attributes.dimension)),
}
"""Collective -> the function that builds one result from the operands of members."""

NATIVE_COLLECTIVES = frozenset(_BUILDERS)
"""Collectives that may meet in native code."""
