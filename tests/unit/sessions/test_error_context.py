import pytest

from xla_contract.errors import CancelledError, InternalError, ResourceExhaustedError
from xla_server.sessions.error_context import client_error, part_of_request, reported


def test_the_part_of_a_request_is_put_in_front_and_all_else_stays() -> None:
    cause = ValueError()
    with pytest.raises(InternalError) as caught, part_of_request("request 3"):
        raise InternalError("m", op="add", instruction="a.1", hint="h", incident="ab12") from cause
    error = caught.value
    assert error.message == "request 3: m"
    assert (error.op, error.instruction, error.hint) == ("add", "a.1", "h")
    assert error.incident == "ab12"
    assert error.__cause__ is cause


def test_an_exception_that_is_no_error_is_an_incident_without_its_cause() -> None:
    told = client_error(KeyError("/etc/secret"), "call", "Execute")
    assert isinstance(told, InternalError)
    assert told.incident
    assert told.incident in told.message
    assert "secret" not in told.message
    assert told.op == "Execute"


def test_an_error_stays_as_it_is() -> None:
    error = InternalError("add %x: a kernel must compile, got ...", incident="ab12")
    assert client_error(error, "call", "Compile") is error


def test_running_out_of_memory_is_no_incident() -> None:
    told = client_error(MemoryError(), "call", "Execute")
    assert isinstance(told, ResourceExhaustedError)
    assert told.message == "the server ran out of memory in this call"
    assert not told.incident


def test_what_a_client_may_know_of_an_error(caplog: pytest.LogCaptureFixture) -> None:
    told = CancelledError("enough")
    assert reported(told) is told
    room = reported(MemoryError())
    assert type(room) is ResourceExhaustedError
    assert "ran out of memory in this execution" in room.message
    assert "Unregister" in room.hint
    fault = reported(ZeroDivisionError("a secret"))
    assert type(fault) is InternalError
    assert "a secret" not in fault.message
    assert fault.incident
    assert fault.incident in fault.message
    # An operator finds the cause by the incident.
    (record,) = caplog.records
    assert fault.incident in record.getMessage()
    assert record.exc_info is not None
    assert "a secret" in str(record.exc_info[1])
