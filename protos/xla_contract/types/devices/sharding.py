"""Shardings: which part of an array each partition of a program holds.

Semantics: XLA's OpSharding and HloSharding. Numbers of devices in a sharding are partitions; the
device assignment states which device runs a partition.
"""

import dataclasses
import enum
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.devices.mesh import MAX_PARTICIPANTS, AxisPart, Mesh, participants
from xla_contract.types.devices.replica_groups import braced
from xla_contract.types.shape import Shape


class ShardingKind(enum.Enum):
    """The ways of spreading a value, each named as in HLO text."""

    REPLICATED = "replicated"
    MAXIMAL = "maximal"
    TUPLE = "tuple"
    TILED = "devices"
    MANUAL = "manual"
    UNKNOWN = "unknown"
    UNREDUCED = "unreduced"


@dataclasses.dataclass(frozen=True, slots=True)
class Sharding:
    """The distribution of a value's parts over partitions.

    `tiles` counts the tiles along each dimension of an array. `subgroups` has pairs: how the
    partitions that hold one tile relate to each other, and their number. `devices` has the
    partitions in the order of the grid of tiles and subgroups, row-major; of MAXIMAL the one
    partition. `elements` are the shardings of a tuple's leaves, depth first.
    """

    kind: ShardingKind
    tiles: tuple[int, ...] = ()
    subgroups: tuple[tuple[ShardingKind, int], ...] = ()
    devices: tuple[int, ...] = ()
    elements: tuple["Sharding", ...] = ()

    def __post_init__(self) -> None:
        if self.kind is ShardingKind.MAXIMAL:
            if len(self.devices) != 1 or self.devices[0] < 0:
                raise InvalidArgumentError(
                    f"a maximal sharding must name one device, got {braced(self.devices)}"
                )
        elif self.kind is ShardingKind.TILED:
            self._check_tiles()

    def _check_tiles(self) -> None:
        grid = self._grid
        if not 1 <= (count := participants(grid)) <= MAX_PARTICIPANTS:
            raise InvalidArgumentError(
                f"a sharding must have 1 to {MAX_PARTICIPANTS} tiles, at least one along each "
                f"dimension, got {braced(grid)}"
            )
        if sorted(self.devices) != list(range(count)):
            raise InvalidArgumentError(
                f"a sharding must name each device from 0 to {count - 1} once for its "
                f"tiles {braced(grid)}, got {braced(self.devices)}"
            )

    @classmethod
    def tiled(
        cls,
        tiles: Sequence[int],
        devices: Sequence[int] | None = None,
        subgroups: Sequence[tuple[ShardingKind, int]] = (),
    ) -> "Sharding":
        """Return a sharding in tiles; without `devices` they are in order.

        Subgroups of one are left out, and one tile alone with no subgroup but copies is
        REPLICATED. Raises InvalidArgumentError.
        """
        sizes = [*tiles, *(size for _, size in subgroups)]
        if devices is None and participants(sizes) <= MAX_PARTICIPANTS:
            devices = range(participants(sizes))
        stated = cls(ShardingKind.TILED, tuple(tiles), tuple(subgroups), tuple(devices or ()))
        kept = tuple((kind, size) for kind, size in subgroups if size > 1)
        copies = all(kind is ShardingKind.REPLICATED for kind, _ in kept)
        if copies and math.prod(tiles) == 1:
            return REPLICATED
        return dataclasses.replace(stated, subgroups=kept)

    @classmethod
    def along(
        cls,
        mesh: Mesh,
        dimensions: Sequence[Sequence[AxisPart]],
        *,
        manual: Sequence[AxisPart] = (),
        unreduced: Sequence[AxisPart] = (),
    ) -> "Sharding":
        """Return the sharding that splits each dimension along parts of axes, the first one major.

        Other axes are copied, manual or unreduced. Raises InvalidArgumentError for parts that
        overlap or that the mesh does not have.
        """
        split = [part for parts in dimensions for part in parts]
        table = mesh.along([*split, *manual, *unreduced])
        subgroups = (
            (ShardingKind.MANUAL, mesh.extent(manual)),
            (ShardingKind.UNREDUCED, mesh.extent(unreduced)),
            (ShardingKind.REPLICATED, len(table)),
        )
        tiles = [mesh.extent(parts) for parts in dimensions]
        return cls.tiled(tiles, table.T.reshape(-1).tolist(), subgroups)

    @classmethod
    def tuple_of(cls, elements: Sequence["Sharding"]) -> "Sharding":
        """The sharding of a tuple with these leaves."""
        return cls(ShardingKind.TUPLE, elements=tuple(elements))

    @property
    def _grid(self) -> tuple[int, ...]:
        return *self.tiles, *(size for _, size in self.subgroups)

    @property
    def partitions(self) -> int | None:
        """The number of partitions that it is made for; None if any number fits."""
        if self.kind is ShardingKind.TUPLE:
            return max((element.partitions or 0 for element in self.elements), default=0) or None
        return len(self.devices) if self.kind is ShardingKind.TILED else None

    def copied(self, replicas: int) -> "Sharding":
        """The sharding over the flattened ids of `replicas` copies, each of which has all tiles."""
        if self.kind is ShardingKind.TUPLE:
            return Sharding.tuple_of([element.copied(replicas) for element in self.elements])
        if self.kind is not ShardingKind.TILED:
            return self
        count = len(self.devices)
        devices = [r * count + partition for partition in self.devices for r in range(replicas)]
        return Sharding.tiled(
            self.tiles, devices, (*self.subgroups, (ShardingKind.REPLICATED, replicas))
        )

    def addends(self, partitions: int) -> tuple[tuple[int, ...], ...]:
        """The groups of partitions whose values sum to a tile; () for a value that is no sum."""
        if self.kind is ShardingKind.UNREDUCED:
            return (tuple(range(partitions)),)
        summed = [
            len(self.tiles) + number
            for number, (kind, _) in enumerate(self.subgroups)
            if kind is ShardingKind.UNREDUCED
        ]
        if not summed:
            return ()
        table = np.moveaxis(np.array(self.devices).reshape(self._grid), summed, range(len(summed)))
        count = math.prod(table.shape[: len(summed)])
        return tuple(map(tuple, table.reshape(count, -1).T.tolist()))

    def reduced(self) -> "Sharding":
        """The sharding once addends are summed and a maximal value is sent to all."""
        if self.kind in (ShardingKind.MAXIMAL, ShardingKind.UNREDUCED):
            return REPLICATED
        if not any(kind is ShardingKind.UNREDUCED for kind, _ in self.subgroups):
            return self
        copies, summed = ShardingKind.REPLICATED, ShardingKind.UNREDUCED
        subgroups = [(copies if kind is summed else kind, n) for kind, n in self.subgroups]
        return Sharding.tiled(self.tiles, self.devices, subgroups)

    def leaves(self, shape: Shape) -> Iterator[tuple[Shape, "Sharding"]]:
        """Each leaf of a shape with its sharding. Raises ShapeError if their numbers differ."""
        parts = list(shape.leaves())
        if self.kind is not ShardingKind.TUPLE:
            return ((part, self) for part in parts)
        if len(parts) != len(self.elements):
            raise ShapeError(
                f"a sharding of a tuple must have one element per leaf, got {len(self.elements)} "
                f"for {shape}"
            )
        return zip(parts, self.elements, strict=True)

    def check(self, shape: Shape) -> None:
        """Raise ShapeError unless the tiles have the array's rank and divide its dimensions."""
        for leaf, sharding in self.leaves(shape):
            if sharding.kind is ShardingKind.TILED:
                sharding._check_array(leaf)

    def _check_array(self, shape: Shape) -> None:
        if len(self.tiles) != shape.rank or not shape.is_array:
            raise ShapeError(
                f"a sharding must have one number of tiles per dimension, got {self} for {shape}"
            )
        for number, (size, tiles) in enumerate(zip(shape.dimensions, self.tiles, strict=True)):
            if tiles > 1 and shape.is_dynamic(number):
                raise ShapeError(
                    f"a dimension in tiles must be static, got dimension {number} of {shape} for "
                    f"{tiles} tiles of {self}"
                )
            if size % tiles:
                raise ShapeError(
                    f"the tiles of a sharding must divide the dimension, got dimension {number} = "
                    f"{size} of {shape} for {tiles} tiles of {self}"
                )

    def shard_shape(self, shape: Shape) -> Shape:
        """The shape of what one partition holds, layouts kept. Raises ShapeError."""
        self.check(shape)
        shards = iter([sharding._shard(leaf) for leaf, sharding in self.leaves(shape)])
        return _rebuilt(shape, shards)

    def whole_shape(self, shard: Shape) -> Shape:
        """Return the shape of a value whose shards have this one, layouts kept.

        Raises InvalidArgumentError for more bytes than an array may have, ShapeError for another
        rank.
        """
        whole = iter([sharding._whole(leaf) for leaf, sharding in self.leaves(shard)])
        return _rebuilt(shard, whole)

    def _whole(self, shard: Shape) -> Shape:
        if self.kind is not ShardingKind.TILED:
            return shard
        if len(self.tiles) != shard.rank or not shard.is_array:
            raise ShapeError(
                f"a sharding must have one number of tiles per dimension, got {self} for {shard}"
            )
        sizes = (size * n for size, n in zip(shard.dimensions, self.tiles, strict=True))
        return dataclasses.replace(shard, dimensions=tuple(sizes))

    def _shard(self, shape: Shape) -> Shape:
        if self.kind is not ShardingKind.TILED:
            return shape
        sizes = (size // n for size, n in zip(shape.dimensions, self.tiles, strict=True))
        return dataclasses.replace(shape, dimensions=tuple(sizes))

    def coordinates(self, partition: int) -> tuple[int, ...]:
        """Return the tile that a partition of a tiled sharding holds, one number per dimension.

        Raises:
            InvalidArgumentError: There is no such partition.
        """
        if not 0 <= partition < len(self.devices):
            raise InvalidArgumentError(
                f"a partition must be in range [0, {len(self.devices)}), got {partition} for {self}"
            )
        place = self.devices.index(partition) * math.prod(self.tiles) // len(self.devices)
        return tuple(int(n) for n in np.unravel_index(place, self.tiles)) if self.tiles else ()

    def placement(self) -> tuple[tuple[int, ...], ...]:
        """The tile of every partition, equal for equivalent shardings; () if there are no tiles."""
        if self.kind is not ShardingKind.TILED or not self.is_split:
            return ()
        order = np.argsort(self.devices) * math.prod(self.tiles) // len(self.devices)
        return tuple(
            zip(*(part.tolist() for part in np.unravel_index(order, self.tiles)), strict=True)
        )

    @property
    def is_split(self) -> bool:
        """True if no partition holds all of a value, or all of some leaf of a tuple."""
        if self.kind is ShardingKind.TUPLE:
            return any(element.is_split for element in self.elements)
        return self.kind is ShardingKind.TILED and math.prod(self.tiles) > 1

    def offsets(self, shape: Shape, partition: int) -> tuple[int, ...]:
        """Where the shard of a partition begins in an array, per dimension. Raises ShapeError."""
        return tuple(part.start for part in self.slices(shape, partition))

    def limits(self, shape: Shape, partition: int) -> tuple[int, ...]:
        """Where the shard of a partition ends in an array, exclusive. Raises ShapeError."""
        return tuple(part.stop for part in self.slices(shape, partition))

    def slices(self, shape: Shape, partition: int) -> tuple[slice, ...]:
        """The part of an array that a partition holds. Raises ShapeError."""
        self.check(shape)
        if self.kind is not ShardingKind.TILED:
            return tuple(slice(0, size) for size in shape.dimensions)
        sizes = self._shard(shape).dimensions
        tiles = zip(self.coordinates(partition), sizes, strict=True)
        return tuple(slice(tile * size, (tile + 1) * size) for tile, size in tiles)

    def join(self, shape: Shape, shards: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the array of `shape` whose shards these are, one per partition.

        The first of several copies counts.

        Raises:
            InvalidArgumentError: The number of shards is not that of partitions.
            ShapeError: A shard has another shape.
        """
        local = self.shard_shape(shape)
        if not shards or (self.kind is ShardingKind.TILED and len(shards) != len(self.devices)):
            raise InvalidArgumentError(
                f"there must be a shard per partition, got {len(shards)} for {self}"
            )
        for partition, shard in enumerate(shards):
            if shard.shape != local.dimensions:
                raise ShapeError(
                    f"a shard must have shape {local} for {shape} in {self}, got "
                    f"{list(shard.shape)} of partition {partition}"
                )
        if not self.is_split:
            return shards[0]
        joined = np.empty(shape.dimensions, shards[0].dtype)
        for partition in reversed(range(len(shards))):
            joined[self.slices(shape, partition)] = shards[partition]
        return joined

    def __str__(self) -> str:
        """HLO text: `{devices=[2,1,4]<=[8] last_tile_dims={replicated}}`."""
        if self.kind is ShardingKind.TUPLE:
            return "{" + ", ".join(map(str, self.elements)) + "}"
        if self.kind is ShardingKind.MAXIMAL:
            return f"{{maximal device={self.devices[0]}}}"
        if self.kind is not ShardingKind.TILED:
            return f"{{{self.kind.value}}}"
        count = len(self.devices)
        listed = ",".join(map(str, self.devices))
        order = f"<=[{count}]" if self.devices == tuple(range(count)) else listed
        text = f"devices=[{','.join(map(str, self._grid))}]{order}"
        if self.subgroups:
            text += " last_tile_dims={" + ", ".join(k.value for k, _ in self.subgroups) + "}"
        return "{" + text + "}"


REPLICATED = Sharding(ShardingKind.REPLICATED)
"""All of a value on every partition."""

MANUAL = Sharding(ShardingKind.MANUAL)
"""A value of a region that is written per partition."""


def _rebuilt(shape: Shape, leaves: Iterator[Shape]) -> Shape:
    """The shape with its leaves replaced; tuples nest at most MAX_NESTING deep."""
    if shape.is_tuple:
        return Shape.tuple_of([_rebuilt(part, leaves) for part in shape.tuple_shapes])
    return next(leaves)
