"""Values between drawn shardings: in whatever parts they come and go, the whole is the same."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.passes.partitioning.grids import partitioned, run_whole
from xla_contract.types.devices.sharding import Sharding, ShardingKind
from xla_contract.types.shape import Shape

WHOLE = Shape.parse("f32[12,24]")


@st.composite
def shardings(draw: st.DrawFn, partitions: int) -> Sharding:
    """Tiles that divide the shape, in any order of the partitions, with copies of the rest."""
    ways = [n for n in (1, 2, 3, 4, 6) if partitions % n == 0]
    first = draw(st.sampled_from(ways))
    second = draw(st.sampled_from([n for n in ways if partitions % (first * n) == 0]))
    copies = ShardingKind.REPLICATED, partitions // (first * second)
    return Sharding.tiled([first, second], draw(st.permutations(range(partitions))), [copies])


@settings(max_examples=40)
@given(st.data(), st.sampled_from([2, 4, 6]))
def test_values_go_from_any_sharding_to_any_other(data: st.DataObject, partitions: int) -> None:
    stated, inside, result = (data.draw(shardings(partitions)) for _ in range(3))
    local = inside.shard_shape(WHOLE)
    text = f"""HloModule m
ENTRY main {{ x = {WHOLE} parameter(0), sharding={stated}
  h = {WHOLE} custom-call(x), custom_call_target="Sharding", sharding={inside}
  e = {local} custom-call(h), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
  n = {local} negate(e)
  g = {WHOLE} custom-call(n), custom_call_target="SPMDShardToFullShape", sharding={inside}
  ROOT r = {WHOLE} copy(g), sharding={result} }}"""
    program = partitioned(text, partitions)
    assert program.signature.parameters[0].placement() == stated.placement()
    assert program.signature.result.placement() == result.placement()
    array = np.arange(WHOLE.element_count, dtype=np.float32).reshape(WHOLE.dimensions)
    (whole,) = run_whole(program.module, program.signature, [array])
    np.testing.assert_array_equal(whole, -array)
