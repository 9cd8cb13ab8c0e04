import numpy as np

from tests.corpus.single_op import inferred, result_of
from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ops.evaluation import Token


def test_the_value_does_not_depend_on_the_layout() -> None:
    numbers = np.arange(6, dtype=np.int16).reshape(2, 3)
    literal = Literal.from_numpy(numbers, Shape.parse("s16[2,3]{0,1}"))
    result = result_of(Opcode.CONSTANT, attributes=ConstantAttributes(literal))
    np.testing.assert_array_equal(result, numbers)


def test_tuples_and_tokens() -> None:
    scalar = Literal.from_numpy(np.float32(2))
    literal = Literal.tuple_of([scalar, Literal.token()])
    attributes = ConstantAttributes(literal)
    assert inferred(Opcode.CONSTANT, [], attributes) == "(f32[], token[])"
    number, token = result_of(Opcode.CONSTANT, attributes=attributes)
    assert number == 2
    assert isinstance(token, Token)
