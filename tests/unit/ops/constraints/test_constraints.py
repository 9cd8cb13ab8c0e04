"""Every constraint is a check in shape inference, hit from the builder and from the wire."""

import pytest

from tests.unit.ops.constraints.case import INSTRUCTION, Case
from tests.unit.ops.constraints.tables import CASES
from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_names_itself_and_the_evidence(case: Case) -> None:
    with pytest.raises(case.error) as caught:
        case.by_rule()
    assert case.message in str(caught.value)
    assert ", got " in case.message


@pytest.mark.parametrize(
    "case", [case for case in CASES if not isinstance(case.build, str)], ids=str
)
def test_the_builder_raises_it_at_the_call(case: Case) -> None:
    with pytest.raises(case.error) as caught:
        case.by_builder()
    assert (case.at_call or case.message) in str(caught.value)
    assert caught.value.op, "the message must begin with the operation"
    with pytest.raises(case.error) as from_rule:
        case.by_rule()
    assert type(caught.value) is type(from_rule.value)


@pytest.mark.parametrize("case", [case for case in CASES if not case.off_wire], ids=str)
def test_the_server_refuses_it_naming_the_instruction(case: Case) -> None:
    with pytest.raises(XlaError) as caught:
        verify(import_module(case.module()))
    error = caught.value
    assert isinstance(error, case.error)
    assert error.code is case.error.code
    assert str(error).startswith(f"{case.opcode} %{INSTRUCTION}: ")
    assert case.message in str(error)


@pytest.mark.parametrize(
    "opcode",
    [
        *(Opcode.ALL_GATHER, Opcode.REDUCE_SCATTER, Opcode.SCAN, Opcode.SORT),
        *(Opcode.SET_DIMENSION_SIZE, Opcode.RAGGED_DOT),
    ],
)
def test_a_message_without_a_dimension_is_refused(opcode: Opcode) -> None:
    with pytest.raises(InvalidArgumentError, match=r"dimension.*, got (\[\]|\{\})"):
        definition(opcode).decode(hlo_pb2.HloInstructionProto(), Shape.parse("f32[2]"))


def test_what_cannot_be_stated_has_a_reason() -> None:
    for case in CASES:
        if isinstance(case.build, str):
            assert len(case.build.split()) > 4, case
        if case.off_wire:
            assert len(case.off_wire.split()) > 4, case
            assert not isinstance(case.build, str), case
