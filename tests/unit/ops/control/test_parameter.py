from tests.corpus.single_op import inferred
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def test_number_and_shape() -> None:
    shape = Shape.parse("(f32[2]{0}, token[])")
    attributes = ParameterAttributes(3, shape.without_layout())
    proto = hlo_pb2.HloInstructionProto()
    definition(Opcode.PARAMETER).encode(attributes, proto)
    assert proto.parameter_number == 3
    assert definition(Opcode.PARAMETER).decode(proto, shape) == attributes
    assert inferred(Opcode.PARAMETER, [], attributes) == "(f32[2], token[])"
