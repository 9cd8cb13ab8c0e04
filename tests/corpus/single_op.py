"""One instruction on its own: its attributes over the wire, its shape rule, its evaluator."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.checked_evaluation import has_shape
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import definition, infer_shape
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import TOKEN, Token, Value


def inferred(opcode: Opcode, operands: Sequence[str], attributes: Any = NO_ATTRIBUTES) -> str:
    """The result's shape in HLO text for operands in HLO text."""
    return str(infer_shape(opcode, [Shape.parse(text) for text in operands], attributes))


def result_of(opcode: Opcode, *operands: Any, attributes: Any = NO_ATTRIBUTES) -> Any:
    """The operation applied to arrays, tokens and tuples of them.

    The attributes must come back from the wire as they went, and the value must have the shape
    that the rule gives.
    """
    values = [_value(operand) for operand in operands]
    parameters = [
        HloInstruction(f"p{number}", number, Opcode.PARAMETER, _shape(value))
        for number, value in enumerate(values)
    ]
    shapes = [parameter.shape for parameter in parameters]
    shape = infer_shape(opcode, shapes, attributes)
    proto = hlo_pb2.HloInstructionProto(opcode=opcode)
    definition(opcode).encode(attributes, proto)
    read = definition(opcode).decode(proto, shape.with_default_layout())
    assert read == attributes
    root = HloInstruction("root", len(values), opcode, shape, tuple(parameters), read)
    program = HloComputation("main", 0, [*parameters, root], root, tuple(parameters))
    before = [value.tobytes() for value in values if isinstance(value, np.ndarray)]
    value = evaluate(program, values)
    assert has_shape(value, shape), shape
    after = [value.tobytes() for value in values if isinstance(value, np.ndarray)]
    assert before == after, "an operand was written to"
    return value


def _value(operand: Any) -> Value:
    if isinstance(operand, tuple):
        return tuple(map(_value, operand))
    return operand if isinstance(operand, Token) else np.asarray(operand)


def _shape(value: Value) -> Shape:
    if isinstance(value, tuple):
        return Shape.tuple_of([_shape(part) for part in value])
    if value is TOKEN or isinstance(value, Token):
        return Shape.token()
    return Shape.array(ElementType.from_dtype(value.dtype), value.shape)
