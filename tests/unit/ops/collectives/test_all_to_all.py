from typing import Any

import numpy as np

from tests.corpus.single_op import inferred, result_of
from xla_contract.ops.collectives.all_to_all import AllToAllAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def exchange(dimension: int | None, groups: Any = ()) -> AllToAllAttributes:
    return AllToAllAttributes(dimension, Participants(ReplicaGroups.of(groups)))


def test_shapes_stay() -> None:
    assert inferred(Opcode.ALL_TO_ALL, ["f32[4,3]"], exchange(0, [[0, 1]])) == "f32[4,3]"
    two = exchange(None, [[0, 1], [2, 3]])
    assert inferred(Opcode.ALL_TO_ALL, ["f32[4]{0}", "f32[4]"], two) == "(f32[4], f32[4])"
    assert inferred(Opcode.ALL_TO_ALL, ["f32[4]"], exchange(None)) == "(f32[4])"


def test_alone_a_tuple_comes_back() -> None:
    (part,) = result_of(Opcode.ALL_TO_ALL, X, attributes=exchange(None))
    np.testing.assert_array_equal(part, X)
