"""A broken constraint of every operation over a real server, which goes on serving."""

import grpc
import numpy as np
import pytest

from tests.e2e import modules
from tests.e2e.process import Raw
from tests.unit.ops.constraints.case import INSTRUCTION, Case
from tests.unit.ops.constraints.tables import CASES
from xla_contract.stubs import xla_pb2

_ONE_OF_EACH = {case.opcode: case for case in CASES if not case.off_wire}


def test_each_is_refused_with_its_status_and_its_sentence(raw: Raw) -> None:
    wrong = [answer for case in _ONE_OF_EACH.values() if (answer := _wrong_answer(raw, case))]
    assert not wrong, "\n".join(wrong)
    handle = raw.compile(modules.axpy())
    one = raw.upload(np.float32([1, 2, 3]))
    arguments = [raw.upload(np.float32(2)), one, one]
    answer = raw.Execute(xla_pb2.ExecuteRequest(handle=handle, arguments=arguments), timeout=30)
    assert raw.download(answer.output).f32s == [3, 6, 9]


def _wrong_answer(raw: Raw, case: Case) -> str:
    """Describe the fault of the server's answer to a case; "" if it is right."""
    with pytest.raises(grpc.RpcError) as caught:
        raw.compile(case.module())
    error = caught.value
    expected = getattr(grpc.StatusCode, case.error.code.name)
    place = f"{case.opcode} %{INSTRUCTION}: "
    if error.code() is expected and place in error.details() and case.message in error.details():
        return ""
    return f"{case}: {error.code()} {error.details()}"
