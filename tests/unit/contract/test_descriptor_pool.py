"""The contract's classes beside a foreign copy of the same files."""

import copy
import pickle
import subprocess
import sys

import pytest

from xla_contract.descriptors import POOL, message_class
from xla_contract.stubs import hlo_pb2, xla_data_pb2

FOREIGN = """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
file = descriptor_pb2.FileDescriptorProto(
    name="xla/xla_data.proto", package="xla", syntax="proto3"
)
shape = file.message_type.add(name="ShapeProto")
shape.field.add(name="foreign", number=900, type=9, label=1)
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
foreign = message_factory.GetMessageClass(
    descriptor_pool.Default().FindMessageTypeByName("xla.ShapeProto")
)
"""
OURS = """
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2
"""
CHECK = """
import pickle
shape = xla_data_pb2.ShapeProto(element_type=xla_data_pb2.F32, dimensions=[2, 3])
sent = hlo_pb2.HloInstructionProto(name="a", shape=shape)
got = hlo_pb2.HloInstructionProto.FromString(sent.SerializeToString())
assert got == sent and list(got.shape.dimensions) == [2, 3]
assert pickle.loads(pickle.dumps(shape)) == shape
assert foreign.FromString(foreign(foreign="x").SerializeToString()).foreign == "x"
assert foreign is not xla_data_pb2.ShapeProto
"""


@pytest.mark.parametrize("order", [FOREIGN + OURS, OURS + FOREIGN])
def test_foreign_copy_in_the_default_pool(order: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", order + CHECK], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_default_pool_is_left_alone() -> None:
    code = (
        OURS
        + """
from google.protobuf import descriptor_pool
try:
    descriptor_pool.Default().FindFileByName("xla/xla_data.proto")
except KeyError:
    pass
else:
    raise SystemExit("registered in the default pool")
"""
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_class_per_message() -> None:
    assert message_class(POOL.FindMessageTypeByName("xla.ShapeProto")) is xla_data_pb2.ShapeProto
    module = hlo_pb2.HloModuleProto(host_program_shape={"result": {"dimensions": [1]}})
    assert type(module.host_program_shape.result) is xla_data_pb2.ShapeProto


def test_messages_can_be_pickled_and_copied() -> None:
    instruction = hlo_pb2.HloInstructionProto(name="a")
    nested = instruction.slice_dimensions.add(start=1, limit=2, stride=1)
    for message in (instruction, nested):
        for twin in (
            pickle.loads(pickle.dumps(message)),
            copy.copy(message),
            copy.deepcopy(message),
        ):
            assert type(twin) is type(message)
            assert twin == message


def test_enums_work_as_protoc_makes_them() -> None:
    assert xla_data_pb2.F32 == xla_data_pb2.PrimitiveType.F32 == 11
    assert xla_data_pb2.PrimitiveType.Name(16) == "BF16"
    assert xla_data_pb2.OpSharding.Type.Value("TUPLE") == xla_data_pb2.OpSharding.TUPLE
