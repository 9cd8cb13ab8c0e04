from typing import Any

import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from tests.corpus.root_text import run_text
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collectives.all_reduce import AllReduceAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import infer_shape
from xla_contract.types.opcode import Opcode
from xla_contract.types.replica_groups import ReplicaGroups
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module
from xla_server.ir.verifier import verify

F32 = Shape.parse("f32[]")
ADD = ProgramShape((F32, F32), F32)
X = np.arange(4, dtype=np.float32)


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


@pytest.mark.parametrize(
    "groups", ["{}", "{{0}}", "{{0},{1}}", "{{1},{0},{2}}", "[1,1]<=[1]", "[2,1]<=[2]"]
)
def test_alone_nothing_is_added(groups: str) -> None:
    root = f"f32[4] all-reduce(x0), replica_groups={groups}, to_apply=add"
    np.testing.assert_array_equal(run_text(["f32[4]"], root, [X]), X)


def test_several_operands_give_a_tuple() -> None:
    root = "(f32[4], f32[]) all-reduce(x0, x1), to_apply=add"
    first, second = run_text(["f32[4]", "f32[]"], root, [X, np.array(3, np.float32)])
    np.testing.assert_array_equal(first, X)
    assert second == 3


@pytest.mark.parametrize(
    "said",
    [
        "replica_groups={{0,1}}",
        "replica_groups=[1,4]<=[4]",
        "channel_id=1, use_global_device_ids=true, replica_groups={{1},{0,2}}",
    ],
)
def test_a_group_with_others_is_refused(said: str) -> None:
    root = f"f32[4] all-reduce(x0), {said}, to_apply=add"
    with pytest.raises(InvalidArgumentError, match=r"^all-reduce %.*each id from 0 to 0 once"):
        run_text(["f32[4]"], root, [X])


def test_halves() -> None:
    text = """
HloModule halves
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b) }
ENTRY main { x = f32[4] parameter(0)
  start = f32[4] all-reduce-start(x), replica_groups={{0}}, to_apply=add
  ROOT done = f32[4] all-reduce-done(start) }
"""
    module = import_module(parse_hlo(text))
    verify(module)
    np.testing.assert_array_equal(evaluate(module, [X], check_values=True), X)
