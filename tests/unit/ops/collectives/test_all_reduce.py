from typing import Any

from xla_contract.ops.collectives.all_reduce import AllReduceAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import infer_shape
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape

F32 = Shape.parse("f32[]")
ADD = ProgramShape((F32, F32), F32)


def infer(*operands: str, reducer: ProgramShape = ADD, **said: Any) -> str:
    groups = ReplicaGroups.of(said.pop("groups", ()))
    attributes = AllReduceAttributes(Participants(groups, **said))
    shapes = [Shape.parse(text) for text in operands]
    return str(infer_shape(Opcode.ALL_REDUCE, shapes, attributes, [reducer]))


def test_shapes_stay() -> None:
    assert infer("f32[2,3]{0,1}", groups=[[0, 2], [1]]) == "f32[2,3]"
    assert infer("f32[2]", "bf16[3]") == "(f32[2], bf16[3])"
    assert infer("f32[2]", groups=[[0, 1]], channel_id=1, use_global_device_ids=True) == "f32[2]"


def test_the_second_half_passes_on_what_the_first_gives() -> None:
    shape = Shape.parse("(f32[2], f32[3])")
    assert infer_shape(Opcode.ALL_REDUCE_DONE, [shape], NO_ATTRIBUTES) == shape
