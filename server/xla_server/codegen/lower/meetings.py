"""Lowering of collectives whose participants meet in native code.

A kernel makes the results of one participant from the operands of all members of its group, which
have copied them to where others read them: a fusion of what the collective computes, whose
parameters are the members' operands. A reduction has the order, the start value and the types of
`ops/collectives/group_reduction.py`, so it has the bits of the host's.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xla_contract.errors import ShapeError
from xla_contract.ops.control.fusion import FusionAttributes, FusionKind
from xla_contract.ops.indexing.dynamic_slice import DynamicSliceAttributes
from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import (
    PLACE,
    Gathered,
    HostThunk,
    KernelThunk,
    Label,
    LeaveThunk,
    MeetThunk,
    Row,
    Value,
)
from xla_server.buffers.slots import is_given
from xla_server.codegen.lower.fusion import lower_fusion
from xla_server.codegen.lower.host import lower_collective
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.execution.collectives_protocol import MAX_MEMBERS
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.participants import groups_of
from xla_server.ops.collectives.group_reduction import plain_opcode
from xla_server.passes.framework.editor import Editor

MAX_BYTES = 1 << 20
"""Bytes of operands of the largest meeting in native code: of others the members share the work."""

MAX_AREA_BYTES = 1 << 24
"""Bytes of operands of all meetings of a program; those beyond them are left to the host."""

_FOLDS = frozenset(
    {Opcode.ADD, Opcode.MULTIPLY, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR, Opcode.XOR}
)
"""Reductions that have the same bits in a kernel as on the host."""


_SUMS = frozenset({Opcode.ADD, Opcode.MULTIPLY})
"""Those that add up BF16 in F32."""

_Make: TypeAlias = Callable[[Editor, HloInstruction, Sequence[HloInstruction]], HloInstruction]


def lower_meeting(lowering: Lowering, i: HloInstruction) -> Tree:
    """Rows that meet the others in native code, where that fits, else one of the host."""
    members, before = _members(lowering, i), len(lowering.rows)
    host_tree = lower_collective(lowering, i)
    host = lowering.rows[-1]
    assert isinstance(host, HostThunk)
    sizes = [value.byte_size for value in host.reads]
    area = sum(sizes)
    if members < 2 or not all(sizes) or area > MAX_BYTES:
        return host_tree
    if lowering.area_bytes + area > MAX_AREA_BYTES:
        return host_tree
    lowering.take_back(before)
    results = []
    for number, operand in enumerate(host.reads):
        result = _result(lowering, i, number, operand, members)
        if result is None:
            lowering.take_back(before)
            return lower_collective(lowering, i)
        results.append(result)
    kernels = tuple(map(_of_meeting, lowering.take_back(before)))
    lowering.area_bytes += area
    end = Label(f"{i.name}.met")
    host = dataclasses.replace(host, writes=tuple(results))
    meeting = MeetThunk(host, i, members, kernels, end)
    leaving = [LeaveThunk(meeting)] if meeting.is_referenced else []
    rows: list[Row] = [meeting, *kernels, *leaving, end]
    for row in rows:
        lowering.add(row)
    return tuple(results) if i.shape.is_tuple else results[0]


def lower_number(lowering: Lowering, i: HloInstruction) -> Tree:
    """A copy of what the run says of its participant, which is written before it begins."""
    number = lowering.numbers.setdefault(i.opcode, Value(i.shape, str(i.opcode)))
    result = lowering.new(i.shape, i.name)
    lowering.copy(result, number)
    return result


def _members(lowering: Lowering, i: HloInstruction) -> int:
    """The members of each group; 0 where the host is to do it, or groups differ in size."""
    if i.called and not _folds_natively(*i.called):
        return 0
    if i.opcode is Opcode.ALL_TO_ALL and i.attributes.split_dimension is None:
        return 0
    try:
        sizes = {len(group) for group in groups_of(i, lowering.grid)}
    except ShapeError:
        return 0
    members = sizes.pop() if len(sizes) == 1 else 0
    return members if members <= MAX_MEMBERS else 0


def _folds_natively(reducer: HloComputation) -> bool:
    """Return whether a kernel reduces to the same bits as the host."""
    kind = reducer.root.shape.element_type
    is_plain = kind is ElementType.BF16 or kind.dtype.isbuiltin == 1
    return plain_opcode(reducer) in _FOLDS and is_plain and not kind.is_complex


def _result(
    lowering: Lowering, i: HloInstruction, number: int, operand: Value, members: int
) -> Value | None:
    """Add the kernels that make one result; None where they do not compile."""
    nothing = HloComputation("", 0, [], i, ())
    editor = Editor(HloModule(i.name, 0, [], nothing, nothing.program_shape))
    shapes = [i.operands[number].shape] * members
    if i.opcode in _BY_PLACE:
        shapes.append(PLACE.shape)
    given = [editor.parameter(n, shape) for n, shape in enumerate(shapes)]
    parameters = [editor.parameter(n, shape) for n, shape in enumerate(shapes)]
    editor.take()
    root = _MAKE[i.opcode](editor, i, parameters)
    inside = [*parameters, *editor.take()]
    body = editor.computation(i.name, inside, root, parameters)
    fusion = editor.add(Opcode.FUSION, given, FusionAttributes(FusionKind.LOOP), (body,))
    fusion.name = i.name if len(i.operands) == 1 else f"{i.name}.{number}"
    for member, each in enumerate(given):
        name = f"{operand.name}.{member}"
        is_place = member == members
        gathered = PLACE if is_place else Gathered(operand.shape, name, member, number)
        lowering.give(each, gathered)
    result = lowering.attempt(fusion, functools.partial(lower_fusion, lowering, fusion))
    assert result is None or isinstance(result, Value)
    return result


def _reduced(
    editor: Editor, i: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    """The reduction of operands in their order."""
    (reducer,) = i.called
    opcode, kind = plain_opcode(reducer), reducer.root.shape.element_type
    assert opcode is not None
    wide = ElementType.F32 if kind is ElementType.BF16 and opcode in _SUMS else kind
    total, *others = (editor.convert(operand, wide) for operand in operands)
    if opcode is Opcode.ADD and wide.is_floating:
        others.insert(0, editor.full(0, wide, total.shape.dimensions))
    for other in others:
        total = editor.add(opcode, (total, other))
    return editor.convert(total, kind)


def _joined(editor: Editor, operands: Sequence[HloInstruction], dimension: int) -> HloInstruction:
    return editor.add(Opcode.CONCATENATE, operands, ConcatenateAttributes(dimension))


def _gathered(
    editor: Editor, i: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    return _joined(editor, operands, i.attributes.dimension)


def _scattered(
    editor: Editor, i: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    return _reduced(editor, i, _own_blocks(editor, operands, i.attributes.dimension))


def _exchanged(
    editor: Editor, i: HloInstruction, operands: Sequence[HloInstruction]
) -> HloInstruction:
    dimension = i.attributes.split_dimension
    return _joined(editor, _own_blocks(editor, operands, dimension), dimension)


def _first(editor: Editor, i: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
    return editor.add(Opcode.COPY, operands[:1])


def _own_blocks(
    editor: Editor, operands: Sequence[HloInstruction], dimension: int
) -> list[HloInstruction]:
    """The block of each member's operand for this participant, whose index comes last."""
    *arrays, place = operands
    sizes = list(arrays[0].shape.dimensions)
    sizes[dimension] //= len(arrays)
    step = editor.constant(sizes[dimension], ElementType.S64)
    starts = [editor.constant(0, ElementType.S64) for _ in sizes]
    starts[dimension] = editor.add(Opcode.MULTIPLY, (place, step))
    box = DynamicSliceAttributes(tuple(sizes))
    return [editor.add(Opcode.DYNAMIC_SLICE, (array, *starts), box) for array in arrays]


def _of_meeting(row: object) -> KernelThunk:
    """The kernel without what members give it, which has no memory in this run."""
    assert isinstance(row, KernelThunk)
    reads = tuple(value for value in row.reads if not is_given(value))
    return dataclasses.replace(row, reads=reads, in_place=())


_MAKE: Mapping[Opcode, _Make] = {
    Opcode.ALL_GATHER: _gathered,
    Opcode.ALL_REDUCE: _reduced,
    Opcode.ALL_TO_ALL: _exchanged,
    Opcode.COLLECTIVE_BROADCAST: _first,
    Opcode.COLLECTIVE_REDUCE: _reduced,
    Opcode.REDUCE_SCATTER: _scattered,
}
"""The function that makes one result of each collective from the operands of all members."""

MEETING_OPCODES = frozenset(_MAKE)
"""Collectives that may meet in native code."""

_BY_PLACE = frozenset({Opcode.ALL_TO_ALL, Opcode.REDUCE_SCATTER})
"""Those whose results differ by the participant: its index in the group follows the operands."""
