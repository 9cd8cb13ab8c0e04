from typing import Any

import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collectives.all_to_all import AllToAllAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.types.opcode import Opcode
from xla_contract.types.replica_groups import ReplicaGroups

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def exchange(dimension: int | None, groups: Any = ()) -> AllToAllAttributes:
    return AllToAllAttributes(dimension, Participants(ReplicaGroups.of(groups)))


def test_shapes_stay() -> None:
    assert inferred(Opcode.ALL_TO_ALL, ["f32[4,3]"], exchange(0, [[0, 1]])) == "f32[4,3]"
    two = exchange(None, [[0, 1], [2, 3]])
    assert inferred(Opcode.ALL_TO_ALL, ["f32[4]{0}", "f32[4]"], two) == "(f32[4], f32[4])"
    assert inferred(Opcode.ALL_TO_ALL, ["f32[4]"], exchange(None)) == "(f32[4])"


def test_alone_everything_comes_back() -> None:
    np.testing.assert_array_equal(result_of(Opcode.ALL_TO_ALL, X, attributes=exchange(1, [[0]])), X)
    (part,) = result_of(Opcode.ALL_TO_ALL, X, attributes=exchange(None))
    np.testing.assert_array_equal(part, X)


def test_other_participants_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"once, got \{\{0,1\}\} for 1 rep"):
        result_of(Opcode.ALL_TO_ALL, X, attributes=exchange(0, [[0, 1]]))
    with pytest.raises(InvalidArgumentError, match="got 2 for a group of 1"):
        result_of(Opcode.ALL_TO_ALL, X, X, attributes=exchange(None))
