import pytest

from xla_contract.errors import ShapeError, UnimplementedError
from xla_contract.ops import definitions as contract
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ops import evaluators as server

PAIR = [Shape.array(ElementType.F32, [2]), Shape.array(ElementType.F32, [3])]


def test_every_opcode_is_defined_or_says_why_not() -> None:
    assert set(contract.DEFINITION) | set(contract.UNDEFINED) == set(Opcode)
    assert not set(contract.DEFINITION) & set(contract.UNDEFINED)


def test_no_opcode_is_defined_twice() -> None:
    opcodes = (*contract.ELEMENTARY, *contract.COMPOUND, *contract.COMMUNICATION)
    assert len(opcodes) == len(contract.DEFINITION)
    assert all(found.opcode is opcode for opcode, found in contract.DEFINITION.items())


def test_every_opcode_is_evaluated_or_says_why_not() -> None:
    assert set(server.EVALUATORS) | set(server.NOT_EVALUATED) == set(Opcode)
    assert not set(server.EVALUATORS) & set(server.NOT_EVALUATED)


def test_the_reasons_read_as_sentences_of_an_error() -> None:
    for opcode, reason in server.NOT_EVALUATED.items():
        assert len(reason.split()) > 4
        assert not reason.endswith(".")
        with pytest.raises(UnimplementedError, match=f"got opcode {opcode}"):
            server.evaluator(opcode)
    for opcode in contract.UNDEFINED:
        with pytest.raises(UnimplementedError, match=f"got opcode {opcode}"):
            contract.definition(opcode)


def test_infer_shape_names_opcode_and_instruction_in_errors() -> None:
    with pytest.raises(ShapeError, match=r"^add %x: .*f32\[2\].*f32\[3\]"):
        contract.infer_shape(Opcode.ADD, PAIR, NO_ATTRIBUTES, instruction="x")
    with pytest.raises(ShapeError, match=r"^add: the number of operands must be 2, got 1: \(f32"):
        contract.infer_shape(Opcode.ADD, PAIR[:1], NO_ATTRIBUTES)
    with pytest.raises(UnimplementedError, match=r"^shuffle %s: .*, got opcode shuffle$"):
        contract.infer_shape(Opcode.SHUFFLE, PAIR[:1], NO_ATTRIBUTES, instruction="s")


def test_infer_shape_gives_the_rule_s_shape() -> None:
    assert contract.infer_shape(Opcode.ADD, [PAIR[0]] * 2, NO_ATTRIBUTES) == PAIR[0]
