from typing import Any

import numpy as np
import pytest

from tests.corpus.root_text import run_text
from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.collectives.all_gather import AllGatherAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.replica_groups import ReplicaGroups
from xla_contract.types.shape import Shape

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def gather(dimension: int, *sizes: int, groups: Any = ()) -> AllGatherAttributes:
    return AllGatherAttributes(dimension, sizes, Participants(ReplicaGroups.of(groups)))


def test_the_dimension_grows_by_the_group() -> None:
    four = gather(1, 12, groups=[[0, 1, 2, 3]])
    assert inferred(Opcode.ALL_GATHER, ["f32[2,3]{0,1}"], four) == "f32[2,12]"
    assert inferred(Opcode.ALL_GATHER, ["f32[2,3]"], gather(1, 15)) == "f32[2,15]"
    two = gather(0, 4, 2, groups=[[0, 1], [3, 2]])
    assert inferred(Opcode.ALL_GATHER, ["f32[2]", "s8[1,5]"], two) == "(f32[4], s8[2,5])"
    assert (
        inferred(Opcode.ALL_GATHER_START, ["f32[2]", "s8[1,5]"], two)
        == "((f32[2], s8[1,5]), (f32[4], s8[2,5]))"
    )
    assert inferred(Opcode.ALL_GATHER_START, ["f32[2]"], gather(0, 4)) == "(f32[2], f32[4])"
    assert inferred(Opcode.ALL_GATHER_DONE, ["(f32[2], f32[4])"]) == "f32[4]"


def test_a_size_that_is_no_multiple_is_refused() -> None:
    with pytest.raises(ShapeError, match="group's size 2, got 9"):
        inferred(Opcode.ALL_GATHER, ["f32[2]", "f32[3]"], gather(0, 4, 9))


def test_malformed_instructions() -> None:
    with pytest.raises(InvalidArgumentError, match="must hold the gathered dimension alone"):
        definition(Opcode.ALL_GATHER).decode(hlo_pb2.HloInstructionProto(), Shape.parse("f32[2]"))
    proto = hlo_pb2.HloInstructionProto(dimensions=[0])
    with pytest.raises(InvalidArgumentError, match="a pair of operands and result"):
        definition(Opcode.ALL_GATHER_START).decode(proto, Shape.parse("f32[2]"))


def test_alone_nothing_is_joined() -> None:
    alone = gather(1, 3, groups=[[0]])
    np.testing.assert_array_equal(result_of(Opcode.ALL_GATHER, X, attributes=alone), X)
    pair = result_of(Opcode.ALL_GATHER, X, X + 1, attributes=gather(0, 2, 2))
    np.testing.assert_array_equal(pair, (X, X + 1))
    started = result_of(Opcode.ALL_GATHER_START, X, attributes=alone)
    np.testing.assert_array_equal(result_of(Opcode.ALL_GATHER_DONE, started), X)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("replica_groups={{0,1}}", r"each id from 0 to 0 once, got \{\{0,1\}\}"),
        ("replica_groups={}", "a group of 1 must have 1 parts of dimension 0, got 2 of 4"),
    ],
)
def test_other_participants_are_refused(said: str, message: str) -> None:
    root = f"f32[4] all-gather(x0), dimensions={{0}}, {said}"
    with pytest.raises(InvalidArgumentError, match=message):
        run_text(["f32[2]"], root, [np.zeros(2, np.float32)])
