"""Lowering of collectives whose participants meet in native code.

A kernel makes the results of one participant from the operands of all members of its group, which
have copied them to where others read them: a fusion of what the collective computes, whose
parameters are the members' operands. A fold has the order, the start value and the types of
`ops/collectives/group_reduction.py`, so its bits are those of the host's.
"""

import dataclasses
import functools
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.control.fusion import FusionAttributes, FusionKind
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import Gathered, HostThunk, KernelThunk, Label, MeetThunk, Row, Value
from xla_server.codegen.lower.fusion import lower_fusion
from xla_server.codegen.lower.host import lower_collective
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.participants import groups_of
from xla_server.ops.collectives.group_reduction import plain_opcode
from xla_server.passes.framework.editor import Editor

MAX_MEMBERS = 8
"""Members of the largest group that meets in native code."""

MAX_BYTES = 1 << 22
"""Bytes of operands of the largest meeting in native code: of others the members share the work."""

MAX_AREA_BYTES = 1 << 25
"""Bytes of operands of all meetings of a program; those beyond them are left to the host."""

_FOLDS = frozenset(
    {Opcode.ADD, Opcode.MULTIPLY, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR, Opcode.XOR}
)
"""Reductions that have the same bits in a kernel as on the host."""


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
    rows: list[Row] = [MeetThunk(host, i, members, kernels, end), *kernels, end]
    for row in rows:
        lowering.add(row)
    return tuple(results) if i.shape.is_tuple else results[0]


def _members(lowering: Lowering, i: HloInstruction) -> int:
    """The members of each group; 0 where the host is to reduce, or groups differ in size."""
    (reducer,) = i.called
    kind = reducer.root.shape.element_type
    is_plain = kind is ElementType.BF16 or kind.dtype.isbuiltin == 1
    if plain_opcode(reducer) not in _FOLDS or not is_plain or kind.is_complex:
        return 0
    try:
        sizes = {len(group) for group in groups_of(i, lowering.grid)}
    except ShapeError:
        return 0
    members = sizes.pop() if len(sizes) == 1 else 0
    return members if members <= MAX_MEMBERS else 0


def _result(
    lowering: Lowering, i: HloInstruction, number: int, operand: Value, members: int
) -> Value | None:
    """Add the kernels that make one result; None where they do not compile."""
    nothing = HloComputation("", 0, [], i, ())
    editor = Editor(HloModule(i.name, 0, [], nothing, nothing.program_shape))
    shape = i.operands[number].shape
    given = [editor.parameter(member, shape) for member in range(members)]
    parameters = [editor.parameter(member, shape) for member in range(members)]
    root = _folded(editor, i, parameters)
    body = editor.computation(i.name, editor.take(), root, parameters)
    fusion = editor.add(Opcode.FUSION, given, FusionAttributes(FusionKind.LOOP), (body,))
    fusion.name = i.name if len(i.operands) == 1 else f"{i.name}.{number}"
    for member, each in enumerate(given):
        name = f"{operand.name}.{member}"
        lowering.give(each, Gathered(operand.shape, name, member, number))
    result = lowering.attempt(fusion, functools.partial(lower_fusion, lowering, fusion))
    assert result is None or isinstance(result, Value)
    return result


def _folded(
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


_SUMS = frozenset({Opcode.ADD, Opcode.MULTIPLY})


def _of_meeting(row: object) -> KernelThunk:
    """The kernel without what members give it, which has no memory in this run."""
    assert isinstance(row, KernelThunk)
    reads = tuple(value for value in row.reads if not isinstance(value, Gathered))
    return dataclasses.replace(row, reads=reads, in_place=())
