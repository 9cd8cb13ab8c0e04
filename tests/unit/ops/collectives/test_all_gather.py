from typing import Any

from tests.corpus.single_op import inferred
from xla_contract.ops.collectives.all_gather import AllGatherAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode


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
