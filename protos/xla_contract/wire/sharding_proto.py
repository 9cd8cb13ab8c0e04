"""Messages of shardings: lists of devices, iota tile assignments and named meshes."""

from collections.abc import Sequence
from typing import Any

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.devices.mesh import MAX_PARTICIPANTS, iota, participants
from xla_contract.types.devices.replica_groups import braced
from xla_contract.types.devices.sharding import Sharding, ShardingKind
from xla_contract.wire.replica_groups_proto import mesh_from_proto, parts_from_proto

MAX_NESTING = 64
"""Deepest nesting of shardings of tuples in a message."""

_Proto = xla_data_pb2.OpSharding
_KINDS: dict[int, ShardingKind] = {
    _Proto.REPLICATED: ShardingKind.REPLICATED,
    _Proto.MAXIMAL: ShardingKind.MAXIMAL,
    _Proto.TUPLE: ShardingKind.TUPLE,
    _Proto.OTHER: ShardingKind.TILED,
    _Proto.MANUAL: ShardingKind.MANUAL,
    _Proto.UNKNOWN: ShardingKind.UNKNOWN,
    _Proto.UNREDUCED: ShardingKind.UNREDUCED,
}
_TYPES: dict[ShardingKind, Any] = {kind: number for number, kind in _KINDS.items()}


def sharding_from_proto(proto: xla_data_pb2.OpSharding) -> Sharding:
    """Return the sharding that a message states; nested tuples become one tuple of leaves.

    Raises:
        InvalidArgumentError: Tiles and devices do not fit, or are more than MAX_PARTICIPANTS.
    """
    if proto.HasField("named_sharding"):
        return _named(proto.named_sharding)
    kind = _kind(proto.type)
    if kind is ShardingKind.TUPLE:
        return Sharding.tuple_of(_elements(proto))
    if kind is ShardingKind.MAXIMAL:
        return Sharding(kind, devices=tuple(proto.tile_assignment_devices))
    if kind is not ShardingKind.TILED:
        return Sharding(kind)
    grid = list(proto.tile_assignment_dimensions)
    subgroups = [_kind(number) for number in proto.last_tile_dims]
    if proto.replicate_on_last_tile_dim:
        subgroups.append(ShardingKind.REPLICATED)
    if len(subgroups) > len(grid):
        raise InvalidArgumentError(
            f"a sharding must have a tile dimension per subgroup, got {len(subgroups)} subgroups "
            f"for {braced(grid)}"
        )
    rank = len(grid) - len(subgroups)
    sizes = zip(subgroups, grid[rank:], strict=True)
    return Sharding.tiled(grid[:rank], _devices(proto, grid), tuple(sizes))


def sharding_to_proto(sharding: Sharding) -> xla_data_pb2.OpSharding:
    """The message of a sharding."""
    proto = xla_data_pb2.OpSharding(type=_TYPES[sharding.kind])
    proto.tuple_shardings.extend(map(sharding_to_proto, sharding.elements))
    if sharding.kind is ShardingKind.TILED:
        subgroups = sharding.subgroups
        proto.tile_assignment_dimensions.extend(sharding.tiles)
        proto.tile_assignment_dimensions.extend(size for _, size in subgroups)
        if [kind for kind, _ in subgroups] == [ShardingKind.REPLICATED]:
            proto.replicate_on_last_tile_dim = True
        else:
            proto.last_tile_dims.extend(_TYPES[kind] for kind, _ in subgroups)
        count = len(sharding.devices)
        if sharding.devices == tuple(range(count)):
            proto.iota_reshape_dims.append(count)
            proto.iota_transpose_perm.append(0)
            return proto
    proto.tile_assignment_devices.extend(sharding.devices)
    return proto


def _kind(number: int) -> ShardingKind:
    if number not in _KINDS:
        raise InvalidArgumentError(f"a sharding must be of a known type, got type {number}")
    return _KINDS[number]


def _elements(proto: xla_data_pb2.OpSharding) -> list[Sharding]:
    found: list[Sharding] = []
    waiting = [(part, 1) for part in reversed(proto.tuple_shardings)]
    while waiting:
        part, depth = waiting.pop()
        if part.type != _Proto.TUPLE or part.HasField("named_sharding"):
            found.append(sharding_from_proto(part))
        elif depth < MAX_NESTING:
            waiting += [(inner, depth + 1) for inner in reversed(part.tuple_shardings)]
        else:
            raise InvalidArgumentError(
                f"shardings of tuples may nest {MAX_NESTING} deep, got a tuple inside of so many"
            )
    return found


def _devices(proto: xla_data_pb2.OpSharding, grid: Sequence[int]) -> list[int]:
    if not proto.iota_reshape_dims:
        return list(proto.tile_assignment_devices)
    count = participants(grid)
    if not 1 <= count <= MAX_PARTICIPANTS:
        raise InvalidArgumentError(
            f"a sharding must have 1 to {MAX_PARTICIPANTS} tiles, got {braced(grid)}"
        )
    order: list[int] = iota(proto.iota_reshape_dims, proto.iota_transpose_perm, count).tolist()
    return order


def _named(stated: xla_data_pb2.NamedShardingProto) -> Sharding:
    return Sharding.along(
        mesh_from_proto(stated.mesh),
        [parts_from_proto(dimension.axes) for dimension in stated.dim_shardings],
        manual=parts_from_proto(stated.manual_axes),
        unreduced=parts_from_proto(stated.unreduced_axes),
    )
