"""Values cut into shards, and shards put together."""

import numpy as np
import pytest

from xla_client import Shape
from xla_contract.errors import XlaError
from xla_contract.types.devices.sharding import MANUAL, REPLICATED, Sharding, ShardingKind
from xla_contract.types.literal import Literal
from xla_server.sessions.runs.grids.shards import cut, cut_bytes, joined, joined_shape, require_cut

ROWS = Sharding.tiled([4, 1])
COPIED_COLUMNS = Sharding.tiled([1, 2], [1, 3, 0, 2], [(ShardingKind.REPLICATED, 2)])
MATRIX = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.mark.parametrize(
    ("sharding", "slices"),
    [
        (ROWS, [np.s_[2 * each : 2 * each + 2] for each in range(4)]),
        (COPIED_COLUMNS, [np.s_[:, 2:], np.s_[:, :2], np.s_[:, 2:], np.s_[:, :2]]),
        (REPLICATED, [np.s_[:]] * 4),
    ],
)
def test_each_participant_gets_its_tile_and_together_they_are_the_value(
    sharding: Sharding, slices: list[slice]
) -> None:
    literal = Literal.from_numpy(MATRIX)
    require_cut(sharding, literal.shape, 4)
    shards = [cut(literal, sharding, each) for each in range(4)]
    for shard, place in zip(shards, slices, strict=True):
        np.testing.assert_array_equal(shard.to_numpy(), MATRIX[place])
    tiled = sharding is not REPLICATED
    size = sum(shard.shape.byte_size for shard in shards) if tiled else 0
    assert cut_bytes(sharding, literal.shape, 4) == size
    shape = joined_shape(sharding, shards[0].shape, 4)
    assert shape == literal.shape
    np.testing.assert_array_equal(joined(sharding, shape, shards).to_numpy(), MATRIX)


def test_a_column_major_value_is_cut_by_its_dimensions() -> None:
    literal = Literal.from_numpy(MATRIX).relayout(Shape.parse("f32[8,4]{0,1}"))
    np.testing.assert_array_equal(cut(literal, ROWS, 1).to_numpy(), MATRIX[2:4])


def test_the_leaves_of_a_tuple_have_shardings_of_their_own() -> None:
    literal = Literal.from_numpy((MATRIX, (np.float32(7), MATRIX.T.copy())))
    sharding = Sharding.tuple_of([ROWS, REPLICATED, Sharding.tiled([1, 4])])
    require_cut(sharding, literal.shape, 4)
    shards = [cut(literal, sharding, each) for each in range(4)]
    first, (second, third) = shards[3].to_numpy()
    np.testing.assert_array_equal(first, MATRIX[6:])
    np.testing.assert_array_equal(third, MATRIX[6:].T)
    assert second == 7
    shape = joined_shape(sharding, shards[0].shape, 4)
    whole = joined(sharding, shape, shards).to_numpy()
    np.testing.assert_array_equal(whole[1][1], MATRIX.T)
    assert cut_bytes(sharding, literal.shape, 4) == 2 * MATRIX.nbytes


@pytest.mark.parametrize(
    ("sharding", "shape", "rule"),
    [
        (MANUAL, "f32[8,4]", r"must be cut in tiles or replicated, got \{manual\} for f32\[8,4\]"),
        (
            Sharding.tiled([2, 1]),
            "f32[8,4]",
            r"must number the 4 participants, got \{devices=\[2",
        ),
        (ROWS, "f32[6,4]", r"must divide the dimension, got dimension 0 = 6"),
        (ROWS, "f32[8]", r"one number of tiles per dimension, got .* for f32\[8\]"),
        (ROWS, "f32[<=8,4]", "must have static sizes"),
        (Sharding.tuple_of([ROWS]), "(f32[8,4], f32[8,4])", "one element per leaf, got 1"),
    ],
)
def test_a_sharding_that_does_not_fit_is_refused(sharding: Sharding, shape: str, rule: str) -> None:
    with pytest.raises(XlaError, match=rule):
        require_cut(sharding, Shape.parse(shape), 4)


def test_shards_of_another_rank_are_not_put_together() -> None:
    with pytest.raises(XlaError, match=r"one number of tiles per dimension, got .* for f32\[8\]"):
        joined_shape(ROWS, Shape.parse("f32[8]"), 4)
