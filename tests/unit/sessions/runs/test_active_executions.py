import pytest

from xla_contract.errors import UnavailableError
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.runs.active_executions import ActiveExecutions

STOP = UnavailableError("the server is shutting down")


def test_executions_are_counted_until_they_end() -> None:
    launched, first, second = ActiveExecutions(), Cancellation(), Cancellation()
    assert launched.value == 0
    for each in (first, second):
        launched.begin(each)
    assert launched.value == 2
    launched.end(first)
    assert launched.value == 1
    launched.end(second)
    assert launched.value == 0


def test_all_are_stopped_those_to_come_too() -> None:
    launched, there, late, ended = (
        ActiveExecutions(),
        Cancellation(),
        Cancellation(),
        Cancellation(),
    )
    for each in (there, ended):
        launched.begin(each)
    launched.end(ended)
    assert launched.cancel_all(STOP) == 1
    launched.begin(late)
    for each in (there, late):
        with pytest.raises(UnavailableError):
            each.check()
    assert not ended.is_cancelled
    # They are there until they have ended, as ever.
    assert launched.value == 2


def test_an_execution_may_end_in_the_thread_that_stops_it() -> None:
    launched, there = ActiveExecutions(), Cancellation()
    launched.begin(there)
    there.add_callback(lambda: launched.end(there))
    launched.cancel_all(STOP)
    assert launched.value == 0
