import pytest

from xla_contract.errors import InternalError
from xla_server.sessions.error_context import part_of_request


def test_the_part_of_a_request_is_put_in_front_and_all_else_stays() -> None:
    cause = ValueError()
    with pytest.raises(InternalError) as caught, part_of_request("request 3"):
        raise InternalError("m", op="add", instruction="a.1", hint="h", incident="ab12") from cause
    error = caught.value
    assert error.message == "request 3: m"
    assert (error.op, error.instruction, error.hint) == ("add", "a.1", "h")
    assert error.incident == "ab12"
    assert error.__cause__ is cause
