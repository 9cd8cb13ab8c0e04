from typing import Any

import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.ragged_all_to_all import RaggedAllToAllAttributes
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode

X = np.arange(8, dtype=np.float32).reshape(4, 2)
OUTPUT = np.full((5, 2), -1, np.float32)


def among(groups: Any = ()) -> RaggedAllToAllAttributes:
    return RaggedAllToAllAttributes(Participants(ReplicaGroups.of(groups)))


def exchange(*tables: Any, groups: Any = ((0,),)) -> Any:
    arrays = [np.array(table, np.int32) for table in tables]
    return result_of(Opcode.RAGGED_ALL_TO_ALL, X, OUTPUT, *arrays, attributes=among(groups))


def test_alone_slices_move_within() -> None:
    found = exchange([1], [2], [3], [2])
    np.testing.assert_array_equal(found[3:], X[1:3])
    np.testing.assert_array_equal(found[:3], OUTPUT[:3])
    found = exchange([[0, 3]], [[1, 1]], [[4, 0]], [[1, 1]])
    np.testing.assert_array_equal(found, [X[3], *OUTPUT[1:4], X[0]])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (([3], [2], [0], [2]), "2 rows from 3 of 4 to 0 of 5"),
        (([0], [2], [4], [2]), "2 rows from 0 of 4 to 4 of 5"),
        (([-1], [2], [0], [2]), "2 rows from -1 of 4"),
        (([0], [2], [0], [1]), "2 rows sent and 1 received"),
    ],
)
def test_slices_lie_inside(tables: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        exchange(*tables)


def test_other_participants_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"once, got \{\{0,1\}\} for 1 rep"):
        exchange([0, 0], [1, 1], [0, 0], [1, 1], groups=[[0, 1]])
    with pytest.raises(InvalidArgumentError, match=r"for each of a group of 1, got s\d+\[2,1\]"):
        exchange([[0], [0]], [[1], [1]], [[0], [0]], [[1], [1]], groups=[])
