from typing import Any

from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.reduce_scatter import ReduceScatterAttributes
from xla_contract.ops.definitions import infer_shape
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape

F32 = Shape.parse("f32[]")
ADD = ProgramShape((F32, F32), F32)


def infer(dimension: int, sizes: tuple[int, ...], *operands: str, groups: Any = ()) -> str:
    participants = Participants(ReplicaGroups.of(groups))
    attributes = ReduceScatterAttributes(dimension, sizes, participants)
    shapes = [Shape.parse(text) for text in operands]
    return str(infer_shape(Opcode.REDUCE_SCATTER, shapes, attributes, [ADD]))


def test_the_dimension_is_divided() -> None:
    assert infer(0, (2,), "f32[8,3]", groups=[[0, 1, 2, 3]]) == "f32[2,3]"
    assert infer(1, (4,), "f32[2,8]") == "f32[2,4]"
    assert infer(0, (1, 2), "f32[2]", "f32[4]", groups=[[1, 0]]) == "(f32[1], f32[2])"
