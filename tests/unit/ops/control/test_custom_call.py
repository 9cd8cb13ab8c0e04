import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.errors import UnimplementedError
from xla_contract.ops.control.custom_call import CustomCallAttributes
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def test_the_target_is_named() -> None:
    attributes = CustomCallAttributes("foo", Shape.parse("f32[2]"), b"arguments", True, 4)
    message = r'^custom-call %root: target "foo" is not known to this server$'
    with pytest.raises(UnimplementedError, match=message):
        result_of(Opcode.CUSTOM_CALL, np.array(1.0), attributes=attributes)


def test_older_writers_have_the_arguments_elsewhere() -> None:
    proto = hlo_pb2.HloInstructionProto(custom_call_target="foo", custom_call_opaque=b"old")
    assert definition(Opcode.CUSTOM_CALL).decode(proto, Shape.parse("f32[2]")).opaque == b"old"
