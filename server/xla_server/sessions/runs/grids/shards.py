"""Values cut into shards for participants, and results concatenated from shards."""

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.sharding import Sharding, ShardingKind
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape


def require_cut(sharding: Sharding, shape: Shape, participants: int) -> None:
    """Check that a sharding cuts a value among `participants` participants.

    Raises InvalidArgumentError if it is neither in tiles nor replicated, is made for another
    number of participants or does not divide the value, and for a value of dynamic size in tiles.
    """
    for leaf, each in sharding.leaves(shape):
        if each.kind is ShardingKind.REPLICATED:
            continue
        if each.kind is not ShardingKind.TILED:
            raise InvalidArgumentError(
                f"a value must be cut in tiles or replicated, got {each} for {leaf}"
            )
        if each.partitions != participants:
            raise InvalidArgumentError(
                f"a sharding must number the {participants} participants, got {each}"
            )
        if any(leaf.is_dynamic(number) for number in range(len(leaf.dimensions))):
            raise InvalidArgumentError(f"a value in tiles must have static sizes, got {leaf}")
        each.check(leaf)


def cut_bytes(sharding: Sharding, shape: Shape, participants: int) -> int:
    """The bytes that the shards of a value take."""
    tiled = [
        each.shard_shape(leaf).byte_size
        for leaf, each in sharding.leaves(shape)
        if each.kind is ShardingKind.TILED
    ]
    return participants * sum(tiled)


def cut(literal: Literal, sharding: Sharding, participant: int) -> Literal:
    """The shard of a participant: a view of a value that `require_cut` has accepted."""
    return _shard(literal, iter(_leaf_shardings(sharding, literal.shape)), participant)


def _shard(literal: Literal, leaves: Iterator[Sharding], participant: int) -> Literal:
    if literal.shape.is_tuple:
        return Literal.tuple_of([_shard(each, leaves, participant) for each in literal.elements])
    sharding, whole = next(leaves), literal.shape.without_layout().with_default_layout()
    if sharding.kind is not ShardingKind.TILED:
        return literal
    part = literal.value[sharding.slices(whole, participant)]
    return Literal.from_numpy(part, sharding.shard_shape(whole), copy=False)


def joined_shape(sharding: Sharding, shard: Shape, participants: int) -> Shape:
    """The row-major shape of the value whose shards have the shape `shard`.

    Raises InvalidArgumentError if the sharding does not fit: see `require_cut`.
    """
    shape = sharding.whole_shape(shard.without_layout()).with_default_layout()
    require_cut(sharding, shape, participants)
    return shape


def joined(sharding: Sharding, shape: Shape, shards: Sequence[Literal]) -> Literal:
    """The value of `shape`, from `joined_shape`, whose shards these are, one per participant."""
    return _join(shape, iter(_leaf_shardings(sharding, shape)), shards)


def _join(shape: Shape, leaves: Iterator[Sharding], shards: Sequence[Literal]) -> Literal:
    if shape.is_tuple:
        columns = zip(*(shard.elements for shard in shards), strict=True)
        parts = zip(shape.tuple_shapes, columns, strict=True)
        return Literal.tuple_of([_join(part, leaves, column) for part, column in parts])
    sharding = next(leaves)
    if sharding.kind is not ShardingKind.TILED:
        return shards[0]
    arrays: list[NDArray[Any]] = [shard.value for shard in shards]
    return Literal.from_numpy(sharding.join(shape, arrays), shape, copy=False)


def _leaf_shardings(sharding: Sharding, shape: Shape) -> list[Sharding]:
    return [each for _, each in sharding.leaves(shape)]
