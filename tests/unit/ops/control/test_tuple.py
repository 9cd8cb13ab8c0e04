import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ops.evaluation import TOKEN


def test_together_and_apart() -> None:
    numbers = np.arange(3)
    pair = result_of(Opcode.TUPLE, numbers, TOKEN)
    assert result_of(Opcode.TUPLE) == ()
    second = GetTupleElementAttributes(1)
    assert result_of(Opcode.GET_TUPLE_ELEMENT, pair, attributes=second) is TOKEN
