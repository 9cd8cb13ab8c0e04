from typing import Any

from tests.corpus.single_op import inferred
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.collective_broadcast import CollectiveBroadcastAttributes
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode


def to(groups: Any) -> CollectiveBroadcastAttributes:
    return CollectiveBroadcastAttributes(Participants(ReplicaGroups.of(groups)))


def test_the_shape_stays() -> None:
    assert inferred(Opcode.COLLECTIVE_BROADCAST, ["f32[4]{0}"], to([[3, 1]])) == "f32[4]"
