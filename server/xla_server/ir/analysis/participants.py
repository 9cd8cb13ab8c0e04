"""Groups of collectives, and pairs of transfers, as participants of the device grid.

Semantics: XLA's CollectiveOpGroupMode, and the checks of its HLO verifier that need the counts of
replicas and partitions.
"""

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.devices.device_grid import (
    DeviceGrid,
    Pairs,
    connected,
    expand_groups,
    expand_pairs,
)
from xla_contract.types.devices.replica_groups import GroupMode, Groups, group_mode
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction

WHOLE_OF_START: Mapping[Opcode, Opcode] = {
    Opcode.ALL_GATHER_START: Opcode.ALL_GATHER,
    Opcode.ALL_REDUCE_START: Opcode.ALL_REDUCE,
    Opcode.COLLECTIVE_PERMUTE_START: Opcode.COLLECTIVE_PERMUTE,
}
"""The synchronous operation of each start half."""

_PERMUTES = frozenset({Opcode.COLLECTIVE_PERMUTE, Opcode.COLLECTIVE_PERMUTE_START})
_GLOBAL = frozenset(
    {
        Opcode.ALL_GATHER,
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE,
        Opcode.ALL_REDUCE_START,
        Opcode.COLLECTIVE_REDUCE,
        Opcode.REDUCE_SCATTER,
    }
)
"""Operations that read use_global_device_ids."""

COLLECTIVES = (
    _PERMUTES | _GLOBAL | {Opcode.ALL_TO_ALL, Opcode.COLLECTIVE_BROADCAST, Opcode.RAGGED_ALL_TO_ALL}
)
"""Operations that exchange values between participants."""

_TRANSFERS = frozenset({Opcode.SEND, Opcode.SEND_DONE, Opcode.RECV, Opcode.RECV_DONE})
_PAIRS = "_xla_send_recv_source_target_pairs"
"""The frontend attribute in which pipelines state the (source, target) pairs of a transfer."""

_expand_groups = functools.lru_cache(maxsize=1024)(expand_groups)
_expand_pairs = functools.lru_cache(maxsize=1024)(expand_pairs)
_connected = functools.lru_cache(maxsize=1024)(connected)


def groups_of(instruction: HloInstruction, grid: DeviceGrid) -> Groups:
    """Return the groups that exchange values with each other, as flattened ids.

    The groups of a permutation are the participants connected by pairs; a participant in no group
    gets zeros. Raises ShapeError for groups or pairs that do not fit the grid.
    """
    if instruction.opcode in _PERMUTES:
        return _connected(pairs_of(instruction, grid))
    participants = instruction.attributes.participants
    mode = participants.mode(has_global_ids=instruction.opcode in _GLOBAL)
    is_partial = instruction.opcode is Opcode.COLLECTIVE_BROADCAST
    return _expand_groups(participants.groups, mode, grid, is_partial=is_partial)


class Placement(NamedTuple):
    """The group of a participant, and the index in it that selects its result.

    `position` is its own index in the group, for a permutation that of its source. It is -1 for a
    participant that gets zeros.
    """

    members: tuple[int, ...]
    position: int


def placements_of(instruction: HloInstruction, grid: DeviceGrid) -> tuple[Placement, ...]:
    """The placement of each participant, alone if no group names it; ShapeError as `groups_of`."""
    groups = {member: group for group in groups_of(instruction, grid) for member in group}
    sources = {member: member for member in groups}
    if instruction.opcode in _PERMUTES:
        sources = {target: source for source, target in pairs_of(instruction, grid)}
    found = []
    for number in range(grid.size):
        group = groups.get(number, (number,))
        position = group.index(sources[number]) if number in sources else -1
        found.append(Placement(group, position))
    return tuple(found)


def pairs_of(instruction: HloInstruction, grid: DeviceGrid) -> Pairs:
    """The pairs (source, target) of a permutation as flattened ids; ShapeError as `groups_of`."""
    attributes = instruction.attributes
    return _expand_pairs(attributes.pairs, group_mode(attributes.channel_id, None), grid)


def transfer_pairs(instruction: HloInstruction) -> Pairs | None:
    """Return the (source, target) pairs of a send or recv, as ids of its mode; None if not stated.

    Pipelined programs state them in a frontend attribute. A done half without the attribute has the
    pairs of its start half. Raises InvalidArgumentError for text that is no list of pairs.
    """
    for part in (instruction, *instruction.operands[-1:]):
        decoration = part.decoration
        if part.opcode in _TRANSFERS and decoration is not None:
            text = decoration.frontend_attributes.map.get(_PAIRS)
            if text is not None:
                return _read_pairs(text)
    return None


@functools.lru_cache(maxsize=1024)
def _read_pairs(text: str) -> Pairs:
    compact = re.sub(r"\s", "", text)
    if re.fullmatch(r"\{(\{\d{1,9},\d{1,9}\}(,(?!\})|(?=\})))*\}", compact) is None:
        raise InvalidArgumentError(f"{_PAIRS} must be a list of pairs, got {text:.100}")
    numbers = [int(number) for number in re.findall(r"\d+", compact)]
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def transfers_of(instruction: HloInstruction, grid: DeviceGrid) -> Pairs | None:
    """The pairs of a send or recv as flattened ids; ShapeError for ids that the grid has not."""
    pairs = transfer_pairs(instruction)
    if pairs is None:
        return None
    # A transfer always has a channel: its ids are replicas only if there is a single partition.
    is_cross_partition = grid.partitions > 1 or grid.replicas == 1
    mode = GroupMode.CROSS_PARTITION if is_cross_partition else GroupMode.CROSS_REPLICA
    return _expand_pairs(pairs, mode, grid)


def check_participants_exist(instruction: HloInstruction, grid: DeviceGrid) -> Groups:
    """The groups of a collective; ShapeError unless they and all sizes fit the grid."""
    groups = groups_of(instruction, grid)
    size = len(groups[0]) if groups else 0
    attributes, operands = instruction.attributes, instruction.operands
    match instruction.opcode:
        case Opcode.ALL_GATHER | Opcode.ALL_GATHER_START | Opcode.REDUCE_SCATTER:
            is_gather = instruction.opcode is not Opcode.REDUCE_SCATTER
            results = attributes.gathered if is_gather else attributes.scattered
            for operand, result in zip(operands, results, strict=True):
                given = operand.shape.dimensions[attributes.dimension]
                part, whole = (given, result) if is_gather else (result, given)
                if part * size != whole:
                    raise ShapeError(
                        f"a group of {size} must have {size} parts of dimension "
                        f"{attributes.dimension}, got {part} of {whole} for {grid}"
                    )
        case Opcode.ALL_TO_ALL if attributes.split_dimension is None:
            if len(operands) != size:
                raise ShapeError(
                    f"there must be one operand for each of a group, got {len(operands)} for a "
                    f"group of {size} of {grid}"
                )
        case Opcode.ALL_TO_ALL:
            split = attributes.split_dimension
            if operands[0].shape.dimensions[split] % size:
                raise ShapeError(
                    f"the split dimension must be divisible by the group's size {size}, got dim "
                    f"{split} = {operands[0].shape.dimensions[split]} of {operands[0].shape}"
                )
        case Opcode.RAGGED_ALL_TO_ALL:
            table = operands[2].shape
            rows = table.dimensions[0]
            if rows != size if table.rank == 2 else rows % size:
                raise ShapeError(
                    f"offsets and sizes must have rows for each of a group of {size}, got {table}"
                )
    return groups
