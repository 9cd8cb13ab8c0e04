import pytest

from xla_contract.errors import CancelledError, InternalError
from xla_server.sessions.error_context import (
    ExecutionFaultError,
    ExecutionMemoryError,
    part_of_request,
    reported,
    with_context,
)


def test_the_part_of_a_request_is_put_in_front_and_all_else_stays() -> None:
    cause = ValueError()
    with pytest.raises(InternalError) as caught, part_of_request("request 3"):
        raise InternalError("m", op="add", instruction="a.1", hint="h", incident="ab12") from cause
    error = caught.value
    assert error.message == "request 3: m"
    assert (error.op, error.instruction, error.hint) == ("add", "a.1", "h")
    assert error.incident == "ab12"
    assert error.__cause__ is cause


def test_the_error_of_an_execution_stays_as_it_is() -> None:
    results = CancelledError("enough")
    assert reported(results) is results


def test_a_fault_of_an_execution_has_no_text_but_its_context(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fault = reported(ZeroDivisionError("a secret"))
    assert type(fault) is ExecutionFaultError
    assert not fault.message
    # An operator finds the cause by the incident.
    (record,) = caplog.records
    assert fault.incident in record.getMessage()
    assert record.exc_info is not None
    assert "a secret" in str(record.exc_info[1])
    named = with_context("execution 3 of f", fault)
    assert (named.message, named.incident) == ("execution 3 of f: ", fault.incident)


def test_an_execution_without_memory_is_no_incident(caplog: pytest.LogCaptureFixture) -> None:
    error = reported(MemoryError())
    assert type(error) is ExecutionMemoryError
    assert not error.message
    assert not error.incident
    assert not caplog.records
