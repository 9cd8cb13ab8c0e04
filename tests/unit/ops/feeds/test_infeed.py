from typing import Any

import numpy as np

from tests.checked_evaluation import evaluate_checked
from xla_contract.ops.definitions import definition
from xla_contract.ops.feeds.infeed import InfeedAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import TOKEN, Value

PAIR = Shape.parse("(f32[2], s32[])")
FED = Shape.tuple_of([PAIR, Shape.token()]).with_default_layout()


class OneItem:
    """Feeds that hold one item, a pair of this array and 1."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def take_infeed(self, shape: Shape, *_: object) -> Value:
        assert shape == PAIR
        return self.array, np.array(1, np.int32)

    def put_outfeed(self, value: Value, shape: Shape, *_: object) -> None:
        raise AssertionError


def fed(array: Any) -> Any:
    """The value of an infeed of one item."""
    token = HloInstruction("token", 0, Opcode.AFTER_ALL, Shape.token())
    root = HloInstruction("root", 1, Opcode.INFEED, FED, (token,), InfeedAttributes(PAIR))
    program = HloComputation("main", 0, [token, root], root, ())
    options = ExecuteOptions(feeds=OneItem(array))
    return evaluate_checked(program, [], options=options)


def test_the_item_comes_with_a_token() -> None:
    attributes = InfeedAttributes(PAIR, b"config")
    proto = hlo_pb2.HloInstructionProto()
    definition(Opcode.INFEED).encode(attributes, proto)
    assert definition(Opcode.INFEED).decode(proto, FED) == attributes
    (array, number), token = fed(np.zeros(2, np.float32))
    assert (array.tolist(), number) == ([0, 0], 1)
    assert token is TOKEN


def test_elements_that_lie_askew_in_a_message_are_copied() -> None:
    received = np.frombuffer(b"x" + np.array([1, 2], np.float32).tobytes(), np.uint8)
    (array, _), _ = fed(received[1:].view(np.float32))
    assert array.flags.aligned
    assert array.tolist() == [1, 2]
