"""Calls that are made again when what they need is there, with no thread meanwhile."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fault.plain import until
from xla_contract.errors import CancelledError, InvalidArgumentError, UnavailableError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.completion import Completion
from xla_server.rpc.calls.deferred import Responder
from xla_server.rpc.calls.retry import retry_when_ready, wait
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.session import Session
from xla_server.sessions.values.futures import ValuePendingError


@pytest.fixture
def executor() -> Iterator[ThreadPool]:
    made = ThreadPool(1, "again")
    yield made
    made.shutdown()


class Given:
    """The answers of a call: what they gave or raised, in their order."""

    def __init__(self, executor: ThreadPool) -> None:
        self.outcomes: list[Any] = []
        self.answer = Responder(self._finish, executor)

    def _finish(self, make_response: Callable[[], Any]) -> None:
        try:
            self.outcomes.append(make_response())
        except BaseException as error:
            self.outcomes.append(error)


class Method:
    """Needs completions one after the other, then answers with its request."""

    def __init__(self, *needed: Completion, error: Exception | None = None) -> None:
        self._needed = needed
        self._error = error
        self.threads: list[str] = []

    def __call__(self, _: Session, request: bytes, __: Cancellation) -> bytes:
        self.threads.append(threading.current_thread().name)
        for each in self._needed:
            if not each.is_done:
                raise ValuePendingError(each)
        if self._error is not None:
            raise self._error
        return request


def _is_free(executor: ThreadPool) -> None:
    """Wait for the one thread there is."""
    done = threading.Event()
    executor.submit(done.set)
    assert done.wait(100)


def test_a_call_that_needs_nothing_is_answered_where_it_is_made(service, executor) -> None:
    method, given = Method(), Given(executor)
    retry_when_ready(method, executor)(service, b"request", Cancellation(), given.answer)
    assert given.outcomes == [b"request"]
    assert method.threads == [threading.current_thread().name]


def test_a_call_is_made_again_until_all_is_there(service, executor) -> None:
    first, second = Completion(), Completion()
    method, given = Method(first, second), Given(executor)
    retry_when_ready(method, executor)(service, b"request", Cancellation(), given.answer)
    # It has returned, and the one thread there is for others.
    _is_free(executor)
    assert given.outcomes == []
    first.finish()
    until(lambda: len(method.threads) == 2)
    _is_free(executor)
    second.finish()
    until(lambda: given.outcomes == [b"request"])
    assert threading.current_thread().name not in method.threads[1:]
    assert len(method.threads) == 3


def test_the_error_of_the_last_attempt_is_the_answer(service, executor) -> None:
    needed, error = Completion(), InvalidArgumentError("it must fit, got this")
    given = Given(executor)
    retry_when_ready(Method(needed, error=error), executor)(
        service, b"", Cancellation(), given.answer
    )
    needed.finish()
    until(lambda: given.outcomes == [error])


def test_a_call_given_up_is_answered_at_once_and_not_made_again(service, executor) -> None:
    needed, cancellation = Completion(), Cancellation()
    method, given = Method(needed), Given(executor)
    retry_when_ready(method, executor)(service, b"", cancellation, given.answer)
    cancellation.cancel(CancelledError("the client gave the call up"))
    until(lambda: len(given.outcomes) == 1)
    assert isinstance(given.outcomes[0], CancelledError)
    # The awaited value has dropped the call.
    assert not needed._callbacks
    needed.finish()
    _is_free(executor)
    assert len(method.threads) == 1


def test_a_call_that_goes_on_is_not_answered_by_its_cancellation(service, executor) -> None:
    needed, cancellation, given = Completion(), Cancellation(), Given(executor)
    proceeded: list[int] = []
    wait(ValuePendingError(needed), lambda: proceeded.append(1), cancellation, given.answer)
    needed.finish()
    assert proceeded == [1]
    cancellation.cancel()
    _is_free(executor)
    assert given.outcomes == []


def test_what_is_there_by_now_is_not_waited_for(executor) -> None:
    needed, given, proceeded = Completion(), Given(executor), list[int]()
    needed.finish()
    wait(ValuePendingError(needed), lambda: proceeded.append(1), Cancellation(), given.answer)
    assert proceeded == [1]


def test_a_call_given_up_before_does_not_go_on(executor) -> None:
    needed, cancellation, given = Completion(), Cancellation(), Given(executor)
    cancellation.cancel(CancelledError("the client gave the call up"))
    proceeded: list[int] = []
    wait(ValuePendingError(needed), lambda: proceeded.append(1), cancellation, given.answer)
    needed.finish()
    until(lambda: len(given.outcomes) == 1)
    assert isinstance(given.outcomes[0], CancelledError)
    assert proceeded == []


def test_a_call_that_waits_for_an_execution_names_it_when_it_ends_before(
    executor: ThreadPool,
) -> None:
    given, cancellation = Given(executor), Cancellation()
    wait(
        ValuePendingError(Completion(), "execution 7 of f"),
        lambda: None,
        cancellation,
        given.answer,
    )
    cancellation.cancel(UnavailableError("the server is shutting down"))
    until(lambda: given.outcomes)
    (error,) = given.outcomes
    assert type(error) is UnavailableError
    assert error.message == "execution 7 of f: the server is shutting down"
