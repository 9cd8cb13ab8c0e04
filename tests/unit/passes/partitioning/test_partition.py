"""Programs with regions as each partition runs them: rules fire or do not, and keep the results."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.passes.partitioning.grids import (
    BODY,
    HEADER,
    SUM,
    marker,
    module,
    partitioned,
    region,
    run_shards,
    run_whole,
)
from tests.unit.passes.passing import opcodes
from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.devices.sharding import REPLICATED, Sharding, ShardingKind
from xla_contract.types.shape import Shape
from xla_server.ir.text.printer import print_module
from xla_server.passes.partitioning.partition import needs_partitioning, partition
from xla_server.passes.partitioning.signature import is_partitioned, sharded_signature

COPIES = ShardingKind.REPLICATED
ROWS = Sharding.tiled([2, 1], None, [(COPIES, 2)])
COLUMNS = Sharding.tiled([1, 2], [0, 2, 1, 3], [(COPIES, 2)])
BLOCKS = Sharding.tiled([2, 2])
X = np.arange(32, dtype=np.float32).reshape(4, 8)


def test_a_parameter_has_the_sharding_of_the_region_that_reads_it() -> None:
    result = partitioned(region())
    assert result.signature.parameters == (BLOCKS,)
    assert result.signature.result == BLOCKS
    assert result.signature.shape.parameters == (Shape.parse("f32[4,8]{1,0}"),)
    assert str(result.module.entry_program_shape.parameters[0]) == "f32[2,4]{1,0}"
    assert opcodes(result.module) == {"call": 1}
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, -X)


def test_a_parameter_keeps_the_sharding_that_it_states() -> None:
    stated = "x = f32[4,8] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}"
    result = partitioned(region(stated))
    assert result.signature.parameters == (ROWS,)
    assert opcodes(result.module)["all-gather"] == 1
    assert opcodes(result.module)["partition-id"] == 1
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, -X)


def test_a_parameter_that_is_stated_whole_stays_whole() -> None:
    result = partitioned(region("x = f32[4,8] parameter(0), sharding={replicated}"))
    assert result.signature.parameters == (REPLICATED,)
    assert "all-gather" not in opcodes(result.module)
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, -X)


def test_a_parameter_is_followed_through_hints() -> None:
    before = """p = f32[4,8] parameter(0)
  x = f32[4,8] custom-call(p), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}"""
    result = partitioned(region(before))
    assert result.signature.parameters == (BLOCKS,)
    assert opcodes(result.module) == {"call": 1}


def test_a_parameter_that_no_region_reads_is_whole() -> None:
    after = "q = f32[3] parameter(1)\n ROOT t = (f32[4,8], f32[3]) tuple(g, q)"
    result = partitioned(region(after=after))
    assert result.signature.parameters == (BLOCKS, REPLICATED)
    assert result.signature.result == Sharding.tuple_of([BLOCKS, REPLICATED])


def test_a_result_has_the_sharding_that_it_states() -> None:
    after = (
        "t = (f32[4,8]) tuple(g)\n"
        "ROOT r = f32[4,8] get-tuple-element(t), index=0, "
        "sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
    )
    result = partitioned(region(after=after))
    assert result.signature.result == COLUMNS
    assert opcodes(result.module)["all-gather"] == 1
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, -X)


def test_a_result_that_is_stated_whole_is_put_together() -> None:
    after = "ROOT r = (f32[4,8]) tuple(g), sharding={{replicated}}"
    result = partitioned(region(after=after))
    assert result.signature.result == Sharding.tuple_of([REPLICATED])
    shards = run_shards(result.module, [[X[:2, :4], X[:2, 4:], X[2:, :4], X[2:, 4:]]])
    for (shard,) in shards:
        np.testing.assert_array_equal(shard, -X)


SECOND = """e2 = {}
  c2 = f32[2,4] call(e2), to_apply=body
  ROOT g2 = {}"""


def counted(dimensions: str, into: str, out: str, shape: str) -> str:
    """A region that multiplies by one more than the number of the partition."""
    return f"""{HEADER}
body {{ v = {shape} parameter(0)
  id = u32[] partition-id()
  one = u32[] constant(1)
  next = u32[] add(id, one)
  n = f32[] convert(next)
  f = {shape} broadcast(n), dimensions={{}}
  ROOT m = {shape} multiply(v, f) }}
ENTRY main {{ x = f32[4,8] parameter(0)
  e = {marker(shape, "x", f"{dimensions}!{into}")}
  c = {shape} call(e), to_apply=body
  ROOT g = {marker("f32[4,8]", "->c", f"{dimensions}!{out}")} }}"""


@given(st.data())
def test_unreduced_values_are_sums_of_what_the_partitions_have(data: st.DataObject) -> None:
    split = {axis: data.draw(st.sampled_from([None, 0, 1])) for axis in "ab"}
    free = [axis for axis in "ab" if split[axis] is None]
    into, out = ("".join(axis for axis in free if data.draw(st.booleans())) for _ in range(2))
    along = ["".join(axis for axis in "ab" if split[axis] == number) for number in range(2)]
    sizes = [size >> len(axes) for size, axes in zip((4, 8), along, strict=True)]
    text = counted(",".join(along), into, out, f"f32[{sizes[0]},{sizes[1]}]")
    result = partitioned(text)
    (whole,) = run_whole(result.module, result.signature, [X])

    coordinates = [dict(zip("ab", divmod(number, 2), strict=True)) for number in range(4)]
    expected = np.zeros_like(X)
    for number, at in enumerate(coordinates):
        # The first partition of those that have a copy counts; addends are all counted.
        if any(at[axis] for axis in free if axis not in out):
            continue
        tile = tuple(
            slice(position * size, (position + 1) * size)
            for axes, size in zip(along, sizes, strict=True)
            for position in [int("".join(str(at[axis]) for axis in axes) or "0", 2)]
        )
        has_value = not any(at[axis] for axis in into)
        expected[tile] += X[tile] * (number + 1) * has_value
    np.testing.assert_array_equal(whole, expected)


def test_between_regions_addends_stay_where_they_are() -> None:
    second = SECOND.format(marker("f32[2,8]", "g", "a,!b"), marker("f32[4,8]", "->c2", "a,!b"))
    text = region(into="a,", out="a,!b", after=second).replace("f32[2,4]", "f32[2,8]")
    result = partitioned(text)
    assert opcodes(result.module) == {"call": 2, "all-reduce": 1}
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, 2 * X)


@pytest.mark.parametrize(("out", "factor"), [("maximal device=2", 3), ("unreduced", 10)])
def test_a_value_of_one_partition_is_sent_to_all_and_one_of_all_is_summed(
    out: str, factor: int
) -> None:
    text = counted("", "", "", "f32[4,8]")
    head, _, _ = text.partition("ENTRY")
    hints = "custom_call_has_side_effect=true, sharding="
    leave = 'custom_call_target="SPMDShardToFullShape"'
    result = partitioned(f"""{head}
ENTRY main {{ x = f32[4,8] parameter(0), sharding={{maximal device=1}}
  e = f32[4,8] custom-call(x), custom_call_target="SPMDFullToShardShape", {hints}{{manual}}
  c = f32[4,8] call(e), to_apply=body
  ROOT g = f32[4,8] custom-call(c), {leave}, {hints}{{{out}}} }}""")
    assert (result.signature.parameters, result.signature.result) == ((REPLICATED,), REPLICATED)
    for (whole,) in run_shards(result.module, [[X] * 4]):
        np.testing.assert_array_equal(whole, factor * X)


def test_between_regions_of_one_sharding_nothing_moves() -> None:
    second = SECOND.format(marker("f32[2,4]", "g", "a,b"), marker("f32[4,8]", "->c2", "a,b"))
    result = partitioned(region(after=second))
    assert opcodes(result.module) == {"call": 2}
    assert not result.work.values
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, X)


def test_between_regions_of_other_shardings_values_are_gathered_and_sliced() -> None:
    second = SECOND.format(marker("f32[2,4]", "g", "b,a"), marker("f32[4,8]", "->c2", "b,a"))
    result = partitioned(region(after=second))
    counts = opcodes(result.module)
    assert (counts["all-gather"], counts["partition-id"]) == (1, 1)
    assert result.work.byte_size == 4 * 8 * 4
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, X)


def test_parts_of_one_dimension_along_two_axes() -> None:
    text = f"""{HEADER}
ENTRY main {{ x = f32[8] parameter(0)
  e = {marker("f32[2]", "x", "ba")}
  g = {marker("f32[8]", "->e", "ab")}
  ROOT s = f32[8] negate(g) }}"""
    result = partitioned(text)
    assert result.signature.parameters == (Sharding.tiled([4], [0, 2, 1, 3]),)
    (whole,) = run_whole(result.module, result.signature, [np.arange(8, dtype=np.float32)])
    np.testing.assert_array_equal(whole, [0, -1, -4, -5, -2, -3, -6, -7])


def test_operations_on_whole_values_run_on_every_partition() -> None:
    after = """zero = f32[] constant(0)
  d = f32[4,8] multiply(g, g)
  ROOT total = f32[8] reduce(d, zero), dimensions={0}, to_apply=sum"""
    result = partitioned(region(after=after))
    assert result.signature.result == REPLICATED
    assert result.work.byte_size == 4 * 8 * 4 * 2 + 8 * 4
    assert [value.instruction.name for value in result.work.values][1:] == ["d", "total"]
    assert result.work.notes[1] == "multiply %d: f32[4,8] is computed on each partition"
    header = print_module(result.module).splitlines()[0]
    assert re.search(r'work_on_every_partition="reshape [^"]*multiply %d: f32\[4,8\]', header)
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, (X * X).sum(axis=0))


def test_whole_values_that_a_region_splits_count() -> None:
    result = partitioned(region("p = f32[4,8] parameter(0)\n x = f32[4,8] cosine(p)"))
    assert result.signature.parameters == (REPLICATED,)
    assert [str(value) for value in result.work.values] == [
        "cosine %x: f32[4,8] is computed on each partition"
    ]


def test_work_on_values_that_nobody_splits_does_not_count() -> None:
    after = """q = f32[3] parameter(1)
  m = f32[3] negate(q)
  ROOT t = (f32[4,8], f32[3]) tuple(g, m)"""
    assert not partitioned(region(after=after)).work.values


def test_more_whole_bytes_than_the_limit_are_refused() -> None:
    text = region(after="ROOT d = f32[4,8] multiply(g, g)")
    assert partitioned(text, max_replicated_bytes=256).work.byte_size == 256
    said = "255 bytes of values that are whole on each of them (--max-replicated-bytes), got 256"
    with pytest.raises(ResourceExhaustedError, match=re.escape(said)) as caught:
        partitioned(text, max_replicated_bytes=255)
    assert "multiply %d: f32[4,8]" in caught.value.message


def test_notes_name_the_first_and_count_the_others() -> None:
    chain = "\n".join(f"d{n + 1} = f32[4,8] negate(d{n})" for n in range(30))
    result = partitioned(
        region(after=f"d0 = f32[4,8] negate(g)\n{chain}\n ROOT r = f32[4,8] negate(d30)")
    )
    assert len(result.work.notes) == 21
    assert result.work.notes[-1] == "and 13 more"


LOOP = f"""{HEADER}{BODY}
step {{ s = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  e = {marker("f32[2,4]", "x", "a,b")}
  c = f32[2,4] call(e), to_apply=body
  g = {marker("f32[4,8]", "->c", "b,a")}
  ROOT r = (s32[], f32[4,8]) tuple(next, g) }}
less {{ s.1 = (s32[], f32[4,8]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  three = s32[] constant(3)
  ROOT l = pred[] compare(i.1, three), direction=LT }}
ENTRY main {{ x.2 = f32[4,8] parameter(0)
  zero = s32[] constant(0)
  b = (s32[], f32[4,8]) tuple(zero, x.2)
  w = (s32[], f32[4,8]) while(b), condition=less, body=step
  ROOT y = f32[4,8] get-tuple-element(w), index=1 }}"""


def test_regions_in_loops_over_whole_values() -> None:
    result = partitioned(LOOP)
    assert result.signature.parameters == (REPLICATED,)
    assert [value.how for value in result.work.values] == ["put together"]

    def step(x: np.ndarray) -> np.ndarray:
        return -np.block([[x[:2, :4], x[2:, :4]], [x[:2, 4:], x[2:, 4:]]])

    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, step(step(step(X))))


def test_markers_of_several_values() -> None:
    text = f"""{HEADER}
body {{ p = f32[2] parameter(0)
  q = s32[8] parameter(1)
  ROOT t = (s32[8], f32[2]) tuple(q, p) }}
ENTRY main {{ x = f32[4] parameter(0)
  y = s32[8] parameter(1)
  e = {marker("(f32[2], s32[8])", "x, y", "a", "")}
  e0 = f32[2] get-tuple-element(e), index=0
  e1 = s32[8] get-tuple-element(e), index=1
  c = (s32[8], f32[2]) call(e0, e1), to_apply=body
  c0 = s32[8] get-tuple-element(c), index=0
  c1 = f32[2] get-tuple-element(c), index=1
  g = {marker("(s32[16], f32[4])", "->c0, c1", "b", "a")}
  g0 = s32[16] get-tuple-element(g), index=0
  g1 = f32[4] get-tuple-element(g), index=1
  ROOT r = (s32[16], f32[4]) tuple(g0, g1) }}"""
    result = partitioned(text)
    assert not result.work.values
    assert [
        leaf.is_split for leaf in (*result.signature.parameters, *result.signature.result.elements)
    ] == [True, False, True, True]
    y = np.arange(8, dtype=np.int32)
    first, second = run_whole(result.module, result.signature, [np.ones(4, np.float32), y])
    np.testing.assert_array_equal(first, [*y, *y])
    np.testing.assert_array_equal(second, np.ones(4))


NESTED = f"""{HEADER}{SUM}
inner {{ v = f32[2,4] parameter(0)
  ROOT all = f32[2,4] all-reduce(v), channel_id=1, replica_groups={{{{0,1}},{{2,3}}}},
    use_global_device_ids=true, to_apply=sum }}
outer {{ x = f32[2,8] parameter(0)
  e = {marker("f32[2,4]", "x", ",b", axes="b")}
  c = f32[2,4] call(e), to_apply=inner
  ROOT g = {marker("f32[2,8]", "->c", ",b", axes="b")} }}
ENTRY main {{ x.1 = f32[4,8] parameter(0)
  e.1 = {marker("f32[2,8]", "x.1", "a,", axes="a")}
  c.1 = f32[2,8] call(e.1), to_apply=outer
  ROOT g.1 = {marker("f32[4,8]", "->c.1", "a,", axes="a")} }}"""


def test_regions_in_regions() -> None:
    result = partitioned(NESTED)
    assert result.signature.parameters == (ROWS,)
    (gathered,) = result.work.values
    assert gathered.instruction.attributes.participants.groups.groups == ((0, 1), (2, 3))
    assert result.work.automatic == (
        "custom-call %e.1: mesh axes b are left to the compiler, along which partitions compute "
        "the same",
    )
    (whole,) = run_whole(result.module, result.signature, [X])
    half = X[:, :4] + X[:, 4:]
    np.testing.assert_array_equal(whole, np.concatenate([half, half], axis=1))


def test_markers_of_gspmd() -> None:
    text = f"""HloModule m{BODY}
ENTRY main {{ x = f32[4,8] parameter(0)
  h = f32[4,8] custom-call(x), custom_call_target="Sharding", sharding={{devices=[2,2]<=[4]}}
  e = f32[2,4] custom-call(h), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  c = f32[2,4] call(e), to_apply=body
  h2 = f32[2,4] custom-call(c), custom_call_target="Sharding", sharding={{manual}}
  ROOT g = f32[4,8] custom-call(h2), custom_call_target="SPMDShardToFullShape",
    sharding={{devices=[2,2]<=[4]}} }}"""
    result = partitioned(text)
    assert opcodes(result.module) == {"call": 1}
    assert result.signature.parameters == (BLOCKS,)
    (whole,) = run_whole(result.module, result.signature, [X])
    np.testing.assert_array_equal(whole, -X)


def test_hints_go_wherever_they_are() -> None:
    hint = 'custom_call_target="Sharding", sharding={replicated}'
    text = region(
        after="zero = f32[] constant(0)\n"
        "ROOT r = f32[8] reduce(g, zero), dimensions={0}, to_apply=sum"
    )
    result = partitioned(
        text.replace(
            "ROOT s = f32[] add(l, r)",
            f"s = f32[] add(l, r)\n ROOT h = f32[] custom-call(s), {hint}",
        )
    )
    assert "custom-call" not in {str(i.opcode) for i in result.module.instructions()}


def test_gathers_stay_within_a_replica() -> None:
    result = partitioned(region(after="ROOT r = f32[4,8] negate(g)"), replicas=2)
    (gathered, _) = result.work.values
    groups = next(i for i in result.module.instructions() if str(i.opcode) == "all-gather")
    assert groups.attributes.participants.groups.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    parts = [X[:2, :4], X[:2, 4:], X[2:, :4], X[2:, 4:]]
    shards = run_shards(result.module, [[*parts, *(part + 1 for part in parts)]])
    for number, (shard,) in enumerate(shards):
        np.testing.assert_array_equal(shard, X + number // 4)
    assert gathered.instruction.shape.compatible(Shape.parse("f32[4,8]"))


def test_aliases_stay_where_shapes_are_equal_still() -> None:
    same = region().replace(
        "HloModule m", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }"
    )
    assert len(partitioned(same).module.decoration.input_output_alias.entries) == 1  # type: ignore[union-attr]
    other = same.replace("ROOT g", "g").replace("\n   }", "\n ROOT r = f32[4,8] negate(g) }")
    assert not partitioned(other).module.decoration.input_output_alias.entries  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\nENTRY main { ROOT x = f32[4] parameter(0) }",
        "HloModule m\nENTRY main { ROOT x = f32[4] parameter(0), sharding={replicated} }",
        "HloModule m\nENTRY main { ROOT x = f32[4] parameter(0), sharding={manual} }",
    ],
)
def test_programs_without_parts_stay_as_they_are(text: str) -> None:
    given = module(text)
    assert not needs_partitioning(given)
    result = partition(given)
    assert result.module is given
    assert result.signature.parameters == (REPLICATED,)
    assert given.decoration is None


def test_a_program_on_one_partition_stays_as_it_is() -> None:
    alone = 'HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=1, "b"=1]>}}\n'
    text = region(into=",", out=",").replace(HEADER, alone).replace("f32[2,4]", "f32[4,8]")
    given = module(text, 1)
    before = [i.name for i in given.instructions()]
    assert not needs_partitioning(given)
    partition(given)
    assert [i.name for i in given.instructions()] == before


def test_a_scheduled_program_is_one_of_parts() -> None:
    text = "HloModule m, is_scheduled=true\nENTRY e { ROOT x = f32[2] parameter(0), sharding=%s }"
    for sharding, whole in (("{devices=[4]<=[4]}", 8), ("{replicated}", 2)):
        scheduled = module(text % sharding, 4)
        assert is_partitioned(scheduled)
        signature = partition(scheduled).signature.shape
        assert signature.parameters[0].dimensions == signature.result.dimensions == (whole,)
    assert not is_partitioned(module((text % "{replicated}").replace(", is_scheduled=true", ""), 4))
    alone = partition(module(text % "{devices=[4]<=[4]}", 1)).signature
    assert alone.parameters == (REPLICATED,)


def test_a_partitioned_program_stays_as_it_is() -> None:
    once = partitioned(region())
    assert is_partitioned(once.module)
    assert not needs_partitioning(once.module)
    names = [i.name for i in once.module.instructions()]
    again = partition(once.module)
    assert [i.name for i in again.module.instructions()] == names
    assert again.signature.parameters == once.signature.parameters
    assert again.signature.result == once.signature.result
    assert again.signature.shape.parameters == once.signature.shape.parameters
    assert sharded_signature(once.module) == again.signature
