import numpy as np

from xla_contract.ops.definitions import definition
from xla_contract.ops.feeds.outfeed import OutfeedAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import TOKEN, Value

SENT = Shape.parse("s32[2,3]{0,1}")


class Sink:
    """Feeds that keep what is put out."""

    def __init__(self) -> None:
        self.items: list[tuple[Value, Shape]] = []

    def take_infeed(self, shape: Shape, *_: object) -> Value:
        raise AssertionError

    def put_outfeed(self, value: Value, shape: Shape, *_: object) -> None:
        self.items.append((value, shape))


def test_the_value_goes_out_in_the_shape_that_is_said() -> None:
    attributes = OutfeedAttributes(SENT, b"config")
    proto = hlo_pb2.HloInstructionProto()
    definition(Opcode.OUTFEED).encode(attributes, proto)
    assert definition(Opcode.OUTFEED).decode(proto, Shape.token()) == attributes
    data = HloInstruction("data", 0, Opcode.PARAMETER, Shape.parse("s32[2,3]"))
    token = HloInstruction("token", 1, Opcode.AFTER_ALL, Shape.token())
    root = HloInstruction("root", 2, Opcode.OUTFEED, Shape.token(), (data, token), attributes)
    program = HloComputation("main", 0, [data, token, root], root, (data,))
    sink, numbers = Sink(), np.zeros((2, 3), np.int32)
    assert evaluate(program, [numbers], options=ExecuteOptions(feeds=sink)) is TOKEN
    assert sink.items == [(numbers, SENT)]
