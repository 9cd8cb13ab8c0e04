"""Expansion of asynchronous pairs, and of collectives without other participants."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collectives.collective_permute import CollectivePermuteAttributes
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.participants import (
    COLLECTIVES,
    WHOLE_OF_START,
    check_participants_exist,
)
from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.collective import are_all_alone
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass

_SECOND_HALVES: Mapping[Opcode, int | None] = {
    Opcode.ALL_GATHER_DONE: 1,
    Opcode.ALL_REDUCE_DONE: None,
    Opcode.ASYNC_DONE: 1,
    Opcode.ASYNC_UPDATE: None,
    Opcode.COLLECTIVE_PERMUTE_DONE: 1,
    Opcode.COPY_DONE: 0,
}
"""Opcode of a -done or -update -> the element of the -start's result it returns; None for all."""

_EXPANDED = {
    *COLLECTIVES,
    *_SECOND_HALVES,
    Opcode.ASYNC_START,
    Opcode.COPY_START,
    Opcode.PARTITION_ID,
    Opcode.REPLICA_ID,
}


class CollectiveExpander(RewritePass):
    """Replaces asynchronous pairs by operations, collectives of one participant by operands."""

    name = "collective-expander"
    opcodes = frozenset(_EXPANDED)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        grid = editor.module.grid
        if i.opcode in _SECOND_HALVES:
            index = _SECOND_HALVES[i.opcode]
            return i.operands[0] if index is None else editor.element(i.operands[0], index)
        if i.opcode in (Opcode.REPLICA_ID, Opcode.PARTITION_ID):
            count = grid.replicas if i.opcode is Opcode.REPLICA_ID else grid.partitions
            return editor.constant(0, ElementType.U32) if count == 1 else None
        if i.opcode is Opcode.ASYNC_START:
            result = editor.add(Opcode.CALL, i.operands, called=i.called)
            return _first_half(editor.add(Opcode.TUPLE, i.operands), result, i, editor)
        if i.opcode is Opcode.COPY_START:
            zero = editor.constant(0, ElementType.U32)
            return editor.add(Opcode.TUPLE, (*i.operands, *i.operands, zero))
        whole = WHOLE_OF_START.get(i.opcode)
        alone = _alone(i, grid, editor)
        if whole is None:
            return alone
        if alone is None:
            attributes = i.attributes
            if isinstance(attributes, CollectivePermuteAttributes):
                attributes = dataclasses.replace(attributes, context=())
            alone = editor.add(whole, i.operands, attributes, i.called)
        if whole is Opcode.ALL_REDUCE:
            return alone
        return _first_half(_one_or_tuple(i.operands, editor), alone, i, editor)


def _first_half(
    operands: HloInstruction, result: HloInstruction, i: HloInstruction, editor: Editor
) -> HloInstruction:
    contexts = [editor.zeros(shape) for shape in i.shape.tuple_shapes[2:]]
    return editor.add(Opcode.TUPLE, (operands, result, *contexts))


def _alone(i: HloInstruction, grid: DeviceGrid, editor: Editor) -> HloInstruction | None:
    """The result of a collective whose groups have one participant each; None for others."""
    try:
        groups = check_participants_exist(i, grid)
    except InvalidArgumentError:
        return None
    if i.opcode is Opcode.RAGGED_ALL_TO_ALL:
        return None
    if isinstance(i.attributes, CollectivePermuteAttributes) and not i.attributes.pairs:
        return _one_or_tuple([editor.zeros(operand.shape) for operand in i.operands], editor)
    if not are_all_alone(groups, grid.size):
        return None
    if i.opcode is Opcode.ALL_TO_ALL and i.attributes.split_dimension is None:
        return editor.add(Opcode.TUPLE, i.operands)
    return _one_or_tuple(i.operands, editor)


def _one_or_tuple(values: Sequence[HloInstruction], editor: Editor) -> HloInstruction:
    return values[0] if len(values) == 1 else editor.add(Opcode.TUPLE, values)
