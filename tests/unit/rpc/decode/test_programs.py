"""Decoding of programs."""

import pytest

from tests.unit.sessions.sample_runs import ADD, program
from xla_contract.errors import InternalError, InvalidArgumentError
from xla_contract.stubs import hlo_pb2
from xla_server.rpc.decode.programs import read_program


def test_a_request_must_hold_a_program_that_says_its_signature() -> None:
    proto = program(ADD).proto
    assert read_program(proto).name == "add"
    with pytest.raises(InvalidArgumentError, match=r"^the request must hold a computation, got no"):
        read_program(None)
    with pytest.raises(InternalError, match="must hold a computation"):
        read_program(None, InternalError)
    proto.ClearField("host_program_shape")
    rule = r"^the computation must say its host_program_shape, got none in 'add'$"
    for error in (InvalidArgumentError, InternalError):
        with pytest.raises(error, match=rule):
            read_program(proto, error)
    # A name is quoted as far as it can be read.
    with pytest.raises(InvalidArgumentError) as caught:
        read_program(hlo_pb2.HloModuleProto(name="n" * 10_000))
    assert len(caught.value.message) < 300
