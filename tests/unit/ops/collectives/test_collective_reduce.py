from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.collective_reduce import CollectiveReduceAttributes
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify

F32 = Shape.parse("f32[]")
X = np.arange(4, dtype=np.float32)


def run(parameters: list[str], root: str, arguments: list[Any]) -> Any:
    """The root over parameters x0, x1 ...; jaxlib reads it as an all-reduce, which is like it."""
    proto = parse_hlo(program(parameters, root))
    for computation in proto.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "all-reduce":
                instruction.opcode = "collective-reduce"
    module = import_module(proto)
    verify(module)
    return evaluate_checked(module, arguments)


def test_attributes_come_back_from_the_wire() -> None:
    groups = ReplicaGroups.of([[0, 1]])
    attributes = CollectiveReduceAttributes(Participants(groups, 1, True))
    proto = hlo_pb2.HloInstructionProto(operand_ids=[1])
    definition(Opcode.COLLECTIVE_REDUCE).encode(attributes, proto)
    assert definition(Opcode.COLLECTIVE_REDUCE).decode(proto, F32) == attributes


def test_alone_nothing_is_added() -> None:
    root = "f32[4] all-reduce(x0), replica_groups={{0}}, to_apply=add"
    np.testing.assert_array_equal(run(["f32[4]"], root, [X]), X)
    root = "(f32[4], f32[]) all-reduce(x0, x1), to_apply=add"
    first, second = run(["f32[4]", "f32[]"], root, [X, np.array(3, np.float32)])
    np.testing.assert_array_equal(first, X)
    assert second == 3


def test_a_group_with_others_is_refused() -> None:
    root = "f32[4] all-reduce(x0), replica_groups={{0,1}}, to_apply=add"
    with pytest.raises(InvalidArgumentError, match=r"^collective-reduce %.*from 0 to 0 once"):
        run(["f32[4]"], root, [X])
