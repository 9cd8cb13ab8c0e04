import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.devices.mesh import AxisPart, Mesh
from xla_contract.types.devices.sharding import MANUAL, REPLICATED, Sharding, ShardingKind
from xla_contract.types.shape import Shape
from xla_contract.wire.sharding_proto import sharding_from_proto, sharding_to_proto
from xla_server.ir.text.scanner import HloReader
from xla_server.ir.text.shardings import SHARDING

COPIES = (ShardingKind.REPLICATED, 2)


def parsed(text: str) -> Sharding:
    return sharding_from_proto(SHARDING.read(HloReader(text)))


@st.composite
def shardings(draw: st.DrawFn, kinds: tuple[ShardingKind, ...] = tuple(ShardingKind)) -> Sharding:
    tiles = draw(st.lists(st.sampled_from([1, 2, 3]), min_size=0, max_size=3))
    sizes = draw(st.lists(st.sampled_from([1, 2]), max_size=2))
    subgroups = [(draw(st.sampled_from(kinds)), size) for size in sizes]
    devices = draw(st.permutations(range(math.prod(tiles) * math.prod(sizes))))
    return Sharding.tiled(tiles, devices, subgroups)


@given(shardings((ShardingKind.REPLICATED,)), st.data())
def test_the_shards_of_an_array_join_to_the_array(sharding: Sharding, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=3, max_size=3))
    tiles = sharding.tiles or (1,)
    shape = Shape.array("s32", [size * n for size, n in zip(sizes, tiles, strict=False)])
    array = np.arange(shape.element_count, dtype=np.int32).reshape(shape.dimensions)
    count = sharding.partitions or 2
    shards = [array[sharding.slices(shape, partition)] for partition in range(count)]
    assert {shard.shape for shard in shards} == {sharding.shard_shape(shape).dimensions}
    np.testing.assert_array_equal(sharding.join(shape, shards), array)


@given(shardings((ShardingKind.REPLICATED, ShardingKind.MANUAL, ShardingKind.UNREDUCED)))
def test_messages_and_text_keep_a_sharding(sharding: Sharding) -> None:
    assert sharding_from_proto(sharding_to_proto(sharding)) == sharding
    assert parsed(str(sharding)) == sharding


@pytest.mark.parametrize(
    ("text", "sharding"),
    [
        ("{replicated}", REPLICATED),
        ("{manual}", MANUAL),
        ("{maximal device=3}", Sharding(ShardingKind.MAXIMAL, devices=(3,))),
        ("{devices=[8,1]<=[8]}", Sharding.tiled([8, 1])),
        ("{devices=[2,2]3,1,0,2}", Sharding.tiled([2, 2], [3, 1, 0, 2])),
        (
            "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
            Sharding.tiled([1, 4], [0, 4, 1, 5, 2, 6, 3, 7], [COPIES]),
        ),
        (
            "{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}",
            Sharding.tiled([1, 1], None, [(ShardingKind.MANUAL, 2), (ShardingKind.REPLICATED, 4)]),
        ),
        ("{devices=[1,1,8]<=[8] last_tile_dim_replicate}", REPLICATED),
        ("{devices=[1]0}", REPLICATED),
        (
            "{{devices=[2]<=[2]}, {replicated}}",
            Sharding.tuple_of([Sharding.tiled([2]), REPLICATED]),
        ),
        ("{mesh['a'=2,'b'=4], [{'a'}, {}]}", Sharding.tiled([2, 1], None, [(COPIES[0], 4)])),
        (
            "{mesh['a'=2,'b'=4], [{'b':(2)2}]}",
            Sharding.tiled([2], [0, 2, 4, 6, 1, 3, 5, 7], [(COPIES[0], 4)]),
        ),
        (
            "{mesh['a'=2,'b'=2], device_ids=(3,2,1,0), [{'b'}], manual={'a'}}",
            Sharding.tiled([2], [3, 1, 2, 0], [(ShardingKind.MANUAL, 2)]),
        ),
    ],
)
def test_every_form_of_hlo_text(text: str, sharding: Sharding) -> None:
    assert parsed(text) == sharding
    assert parsed(str(sharding)) == sharding
    assert sharding_from_proto(sharding_to_proto(sharding)) == sharding


def test_nested_tuples_are_read_as_their_leaves() -> None:
    assert parsed("{{{manual}, {}}, {replicated}}") == Sharding.tuple_of([MANUAL, REPLICATED])
    deep = "{" * 66 + "}" * 66
    with pytest.raises(InvalidArgumentError, match="at most 64 nested"):
        parsed(deep)
    proto = xla_data_pb2.OpSharding(type=xla_data_pb2.OpSharding.TUPLE)
    for _ in range(66):
        proto = xla_data_pb2.OpSharding(type=proto.type, tuple_shardings=[proto])
    with pytest.raises(InvalidArgumentError, match="may nest 64 deep"):
        sharding_from_proto(proto)


def test_shapes_offsets_and_limits_of_shards() -> None:
    sharding = parsed("{devices=[2,4]<=[4,2]T(1,0)}")
    shape = Shape.parse("f32[4,8]{0,1}")
    assert sharding.shard_shape(shape) == Shape.parse("f32[2,2]{0,1}")
    assert sharding.coordinates(3) == (1, 1)
    assert sharding.offsets(shape, 3) == (2, 2)
    assert sharding.limits(shape, 3) == (4, 4)
    assert REPLICATED.slices(shape, 7) == (slice(0, 4), slice(0, 8))
    assert REPLICATED.shard_shape(shape) == shape
    assert sharding.placement()[:3] == ((0, 0), (1, 0), (0, 1))
    assert REPLICATED.placement() == ()


def test_a_tuple_is_sharded_leaf_by_leaf() -> None:
    sharding = parsed("{{devices=[2]<=[2]}, {replicated}, {replicated}}")
    shape = Shape.parse("(f32[4], (s32[4], token[]))")
    assert sharding.shard_shape(shape) == Shape.parse("(f32[2], (s32[4], token[]))")
    assert sharding.partitions == 2
    with pytest.raises(ShapeError, match=re.escape("one element per leaf, got 3 for (f32[4])")):
        sharding.shard_shape(Shape.parse("(f32[4])"))


@pytest.mark.parametrize(
    ("text", "shape", "said"),
    [
        ("{devices=[8]<=[8]}", "f32[9]", "dimension 0 = 9 of f32[9] for 8 tiles of {devices=[8]"),
        ("{devices=[2,1]<=[2]}", "f32[4]", "one number of tiles per dimension, got {devices=[2,1]"),
        ("{devices=[2]<=[2]}", "f32[<=4]", "must be static, got dimension 0 of f32[<=4] for 2"),
        ("{devices=[2]<=[2]}", "token[]", "one number of tiles per dimension"),
    ],
)
def test_a_sharding_that_does_not_fit_is_refused(text: str, shape: str, said: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(said)):
        parsed(text).shard_shape(Shape.parse(shape))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{devices=[2,2]0,1,2}", "each device from 0 to 3 once for its tiles {2,2}, got {0,1,2}"),
        ("{devices=[2]0,0}", "got {0,0}"),
        ("{devices=[0]0}", "at least one along each dimension, got {0}"),
        ("{devices=[2]<=[3]}", "an iota must be reshaped to its 2 ids, got {3}"),
        ("{devices=[2097152]<=[2097152]}", "1 to 1048576 tiles, got {2097152}"),
        ("{devices=[2]<=[2] last_tile_dims={manual, replicated}}", "got 2 subgroups for {2}"),
        ("{maximal}", None),
        ("{mesh['a'=2], [{'a'}, {'a'}]}", "must not overlap"),
        ("{mesh['a'=2], device_ids=(1,1), [{'a'}]}", "got {1,1}"),
        ("{mesh['a'=2], device_ids=(1), [{'a'}]}", "one device per position, got 1 for 2"),
    ],
)
def test_a_sharding_that_does_not_work_out_is_refused(text: str, said: str | None) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(said or "one device, got {}")):
        parsed(text)


def test_a_message_of_an_unknown_type_is_refused() -> None:
    proto = xla_data_pb2.OpSharding.FromString(b"\x08\x63")
    with pytest.raises(InvalidArgumentError, match="known type, got type 99"):
        sharding_from_proto(proto)


def test_shards_that_do_not_fit_are_refused() -> None:
    sharding, shape = Sharding.tiled([2]), Shape.parse("f32[4]")
    with pytest.raises(InvalidArgumentError, match=re.escape("got 1 for {devices=[2]<=[2]}")):
        sharding.join(shape, [np.zeros(2)])
    with pytest.raises(InvalidArgumentError, match="got 0"):
        REPLICATED.join(shape, [])
    with pytest.raises(ShapeError, match=re.escape("f32[2] for f32[4]")):
        sharding.join(shape, [np.zeros(2), np.zeros(3)])
    with pytest.raises(InvalidArgumentError, match=re.escape("in range [0, 2), got 2")):
        sharding.slices(shape, 2)


def test_tiles_that_nobody_can_count_are_refused() -> None:
    for tiles in ([-1], [2**40], [2**19, 4], [2**62] * 10**6, [2**62, 2**62, 0]):
        with pytest.raises(InvalidArgumentError, match="1 to 1048576 tiles"):
            Sharding.tiled(tiles)
        with pytest.raises(InvalidArgumentError, match="1 to 1048576 devices"):
            Mesh(tuple(tiles))


def test_every_replica_has_all_tiles() -> None:
    one = Sharding.tiled([2], [1, 0])
    assert one.copied(1) == one
    assert REPLICATED.copied(3) == REPLICATED
    assert [one.copied(3).coordinates(number) for number in range(6)] == [(1,), (0,)] * 3
    assert Sharding.tuple_of([one]).copied(2) == Sharding.tuple_of([one.copied(2)])


def test_axes_of_a_mesh_split_dimensions() -> None:
    mesh = Mesh((2, 4), ("a", "b"))
    a, b = AxisPart(0), AxisPart(1)
    assert Sharding.along(mesh, [[a, b], []]) == Sharding.tiled([8, 1])
    assert Sharding.along(mesh, [[b, a]]) == parsed("{devices=[8]<=[2,4]T(1,0)}")
    assert Sharding.along(mesh, [[], []]) == REPLICATED
    assert Sharding.along(mesh, [[a]], unreduced=[b]).subgroups == ((ShardingKind.UNREDUCED, 4),)
