import pytest

from xla_contract.errors import UnavailableError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.cancellation_set import CancellationSet

STOP = UnavailableError("the server is shutting down")


def test_executions_are_counted_until_they_end() -> None:
    launched, first, second = CancellationSet(), Cancellation(), Cancellation()
    assert not launched
    for each in (first, second):
        launched.add(each)
    assert set(launched) == {first, second}
    launched.discard(first)
    assert len(launched) == 1
    assert second in launched
    launched.discard(second)
    assert not launched


def test_all_are_stopped_those_to_come_too() -> None:
    launched, there, late, ended = (
        CancellationSet(),
        Cancellation(),
        Cancellation(),
        Cancellation(),
    )
    for each in (there, ended):
        launched.add(each)
    launched.discard(ended)
    launched.cancel_all(STOP)
    launched.add(late)
    for each in (there, late):
        with pytest.raises(UnavailableError):
            each.check()
    assert not ended.is_cancelled
    # They are there until they have ended, as ever.
    assert len(launched) == 2


def test_an_execution_may_end_in_the_thread_that_stops_it() -> None:
    launched, there = CancellationSet(), Cancellation()
    launched.add(there)
    there.add_callback(lambda: launched.discard(there))
    launched.cancel_all(STOP)
    assert not launched
