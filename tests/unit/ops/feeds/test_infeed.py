import numpy as np

from tests.corpus.single_op import inferred
from xla_contract.ops.definitions import definition
from xla_contract.ops.feeds.infeed import InfeedAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import TOKEN, Token, Value

PAIR = Shape.parse("(f32[2], s32[])")


class OneItem:
    """Feeds that hold one item."""

    def take_infeed(self, shape: Shape, *_: object) -> Value:
        assert shape == PAIR
        return np.zeros(2, np.float32), np.array(1, np.int32)

    def put_outfeed(self, value: Value, shape: Shape, *_: object) -> None:
        raise AssertionError


def test_the_item_comes_with_a_token() -> None:
    attributes = InfeedAttributes(PAIR, b"config")
    proto = hlo_pb2.HloInstructionProto()
    definition(Opcode.INFEED).encode(attributes, proto)
    shape = Shape.tuple_of([PAIR, Shape.token()])
    assert definition(Opcode.INFEED).decode(proto, shape.with_default_layout()) == attributes
    assert inferred(Opcode.INFEED, ["token[]"], attributes) == str(shape)
    token = HloInstruction("token", 0, Opcode.AFTER_ALL, Shape.token())
    root = HloInstruction("root", 1, Opcode.INFEED, shape, (token,), attributes)
    program = HloComputation("main", 0, [token, root], root, ())
    value = evaluate(program, [], options=ExecuteOptions(feeds=OneItem()), check_values=True)
    assert isinstance(value, tuple)
    assert isinstance(value[1], Token)
    assert value[1] is TOKEN


def test_elements_that_lie_askew_in_a_message_are_copied() -> None:
    received = np.frombuffer(b"x" + np.array([1, 2], np.float32).tobytes(), np.uint8)

    class Askew(OneItem):
        def take_infeed(self, shape: Shape, *_: object) -> Value:
            return received[1:].view(np.float32), np.array(1, np.int32)

    token = HloInstruction("token", 0, Opcode.AFTER_ALL, Shape.token())
    shape = Shape.tuple_of([PAIR, Shape.token()]).with_default_layout()
    root = HloInstruction("root", 1, Opcode.INFEED, shape, (token,), InfeedAttributes(PAIR))
    value = evaluate(
        HloComputation("main", 0, [token, root], root, ()),
        [],
        options=ExecuteOptions(feeds=Askew()),
    )
    (array, _), _ = value  # type: ignore[misc]
    assert array.flags.aligned  # type: ignore[union-attr]
    assert array.tolist() == [1, 2]  # type: ignore[union-attr]
