"""Instructions that assemble the parts of all partitions, and that take one partition's part."""

import math
from collections.abc import Sequence

import numpy as np

from xla_contract.ops.collectives.all_gather import AllGatherAttributes
from xla_contract.ops.collectives.all_reduce import AllReduceAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.collective_broadcast import CollectiveBroadcastAttributes
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.devices.sharding import Sharding
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor

_CHANNEL = 1
"""Channel of all added collectives; those of one module may share it, as JAX's do."""

_LARGEST_S32 = 2**31 - 1
"""Largest index in S32; positions in larger dimensions are S64."""


def gather(
    editor: Editor, local: HloInstruction, sharding: Sharding, replicas: int
) -> HloInstruction:
    """The whole value, from the tiles of all partitions; subgroups exchange nothing."""
    tiles, sizes = sharding.tiles, local.shape.dimensions
    count = math.prod(tiles)
    split = [number for number, n in enumerate(tiles) if n > 1]
    table = np.array(sharding.devices).reshape(count, -1).T
    groups = [row for r in range(replicas) for row in (table + r * table.size).tolist()]
    participants = Participants(ReplicaGroups.of(groups), _CHANNEL, use_global_device_ids=True)
    if len(split) == 1:
        (dimension,) = split
        attributes = AllGatherAttributes(dimension, (sizes[dimension] * count,), participants)
        return editor.add(Opcode.ALL_GATHER, (local,), attributes)
    rows = editor.reshape(local, (1, *sizes))
    gathered = editor.add(
        Opcode.ALL_GATHER, (rows,), AllGatherAttributes(0, (count,), participants)
    )
    # Each dimension of tiles comes before the dimension that it splits.
    split_sizes = [tiles[number] for number in split]
    blocks = editor.reshape(gathered, (*split_sizes, *sizes))
    order: list[int] = []
    for number in range(len(sizes)):
        order += [split.index(number)] if number in split else []
        order.append(len(split) + number)
    whole = [size * n for size, n in zip(sizes, tiles, strict=True)]
    return editor.reshape(editor.transpose(blocks, order), whole)


def summed(
    editor: Editor,
    local: HloInstruction,
    addends: Sequence[Sequence[int]],
    grid: DeviceGrid,
) -> HloInstruction:
    """The sum of the values of each of these groups of partitions."""
    groups = [
        [replica * grid.partitions + partition for partition in group]
        for replica in range(grid.replicas)
        for group in addends
    ]
    participants = Participants(ReplicaGroups.of(groups), _CHANNEL, use_global_device_ids=True)
    add = editor.binary_computation(Opcode.ADD, local.shape.element_type)
    return editor.add(Opcode.ALL_REDUCE, (local,), AllReduceAttributes(participants), (add,))


def sent_by(
    editor: Editor, local: HloInstruction, partition: int, partitions: int
) -> HloInstruction:
    """The value of one partition, on all of them."""
    group = [partition, *(number for number in range(partitions) if number != partition)]
    participants = Participants(ReplicaGroups.of([group]), _CHANNEL)
    attributes = CollectiveBroadcastAttributes(participants)
    return editor.add(Opcode.COLLECTIVE_BROADCAST, (local,), attributes)


def addend_of(
    editor: Editor,
    part: HloInstruction,
    addends: Sequence[Sequence[int]],
    partition_id: HloInstruction,
) -> HloInstruction:
    """The value on the first partition of each group, and zeros on the others."""
    is_first = np.zeros(sum(map(len, addends)), np.bool_)
    is_first[[group[0] for group in addends]] = True
    chosen = _entry(editor, editor.constant(is_first, ElementType.PRED), partition_id)
    keep = editor.broadcast(chosen, (), part.shape.dimensions)
    return editor.add(Opcode.SELECT, (keep, part, editor.zeros(part.shape)))


def _entry(editor: Editor, table: HloInstruction, partition_id: HloInstruction) -> HloInstruction:
    """The scalar of a table at this partition's id."""
    return editor.reshape(editor.dynamic_slice(table, [partition_id], (1,)), ())


def part_of(
    editor: Editor, whole: HloInstruction, sharding: Sharding, partition_id: HloInstruction
) -> HloInstruction:
    """The part of a whole value that the partition with this id holds."""
    tiles = sharding.tiles
    sizes = [size // n for size, n in zip(whole.shape.dimensions, tiles, strict=True)]
    is_large = any(size > _LARGEST_S32 for size in whole.shape.dimensions)
    kind = ElementType.S64 if is_large else ElementType.S32
    offsets = np.array(sharding.placement()) * sizes
    zero = editor.constant(0, kind)
    starts = [zero] * len(sizes)
    for number, n in enumerate(tiles):
        if n > 1:
            column = editor.constant(offsets[:, number], kind)
            starts[number] = _entry(editor, column, partition_id)
    return editor.dynamic_slice(whole, starts, sizes)
