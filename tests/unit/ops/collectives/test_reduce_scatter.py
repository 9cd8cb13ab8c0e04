from typing import Any

import numpy as np
import pytest

from tests.corpus.root_text import run_text
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.reduce_scatter import ReduceScatterAttributes
from xla_contract.ops.definitions import definition, infer_shape
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.replica_groups import ReplicaGroups
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


def test_a_size_that_is_no_part_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"group's size 2, got f32\[8\] and 3"):
        infer(0, (3,), "f32[8]", groups=())


def test_it_names_one_dimension() -> None:
    with pytest.raises(InvalidArgumentError, match="must hold the scattered dimension alone"):
        definition(Opcode.REDUCE_SCATTER).decode(hlo_pb2.HloInstructionProto(), F32)


def test_alone_everything_is_kept() -> None:
    x = np.arange(4, dtype=np.float32)
    root = "f32[4] reduce-scatter(x0), replica_groups={{0}}, dimensions={0}, to_apply=add"
    np.testing.assert_array_equal(run_text(["f32[4]"], root, [x]), x)


@pytest.mark.parametrize(
    ("groups", "message"),
    [("{{0,1}}", r"once, got \{\{0,1\}\} for 1 rep"), ("{}", "1 parts of dimension 0, got 2 of 4")],
)
def test_other_participants_are_refused(groups: str, message: str) -> None:
    root = f"f32[2] reduce-scatter(x0), replica_groups={groups}, dimensions={{0}}, to_apply=add"
    with pytest.raises(InvalidArgumentError, match=message):
        run_text(["f32[4]"], root, [np.zeros(4, np.float32)])
