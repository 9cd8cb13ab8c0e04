from typing import Any

import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.collective_broadcast import CollectiveBroadcastAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.replica_groups import ReplicaGroups

X = np.arange(4, dtype=np.float32)


def to(groups: Any) -> CollectiveBroadcastAttributes:
    return CollectiveBroadcastAttributes(Participants(ReplicaGroups.of(groups)))


def test_the_shape_stays() -> None:
    assert inferred(Opcode.COLLECTIVE_BROADCAST, ["f32[4]{0}"], to([[3, 1]])) == "f32[4]"


@pytest.mark.parametrize("groups", [[], [[0]], [[1], [0]]])
def test_alone(groups: Any) -> None:
    found = result_of(Opcode.COLLECTIVE_BROADCAST, X, attributes=to(groups))
    np.testing.assert_array_equal(found, X)


def test_several_operands_give_a_tuple() -> None:
    found = result_of(Opcode.COLLECTIVE_BROADCAST, X, X[:2], attributes=to([[0]]))
    np.testing.assert_array_equal(found[0], X)
    np.testing.assert_array_equal(found[1], X[:2])


@pytest.mark.parametrize("groups", [[[1, 0]], [[1, 2]], [[1]]])
def test_other_participants_are_refused(groups: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"at most once, got \{\{1"):
        result_of(Opcode.COLLECTIVE_BROADCAST, X, attributes=to(groups))
