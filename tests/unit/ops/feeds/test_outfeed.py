import numpy as np
import pytest

from tests.corpus.single_op import inferred
from xla_contract.errors import InvalidArgumentError, ShapeError
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


def test_refusals() -> None:
    attributes = OutfeedAttributes(SENT)
    assert inferred(Opcode.OUTFEED, ["s32[2,3]", "token[]"], attributes) == "token[]"
    with pytest.raises(ShapeError, match=r"got s32\[2\] and s32\[2,3\]"):
        inferred(Opcode.OUTFEED, ["s32[2]", "token[]"], attributes)
    with pytest.raises(ShapeError, match=r"second operand must be a token, got s32\[\]"):
        inferred(Opcode.OUTFEED, ["s32[2,3]", "s32[]"], attributes)
    with pytest.raises(InvalidArgumentError, match="outfeed_shape must be present"):
        definition(Opcode.OUTFEED).decode(hlo_pb2.HloInstructionProto(), Shape.token())
