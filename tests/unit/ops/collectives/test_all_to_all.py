from typing import Any

import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.collectives.all_to_all import AllToAllAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def exchange(dimension: int | None, groups: Any = ()) -> AllToAllAttributes:
    return AllToAllAttributes(dimension, Participants(ReplicaGroups.of(groups)))


def test_alone_a_tuple_comes_back() -> None:
    (part,) = result_of(Opcode.ALL_TO_ALL, X, attributes=exchange(None))
    np.testing.assert_array_equal(part, X)
