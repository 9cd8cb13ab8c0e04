"""The end of RunBatch, whichever of its threads is first."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.fault.plain import until
from tests.unit.sessions.sample_runs import (
    DOUBLE,
    ONES,
    compiled,
    endless,
    launch_endless,
    open_service,
    run_request,
    step,
    value,
)
from xla_contract.errors import DeadlineExceededError, InvalidArgumentError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.deferred import Responder
from xla_server.rpc.calls.method_table import Deferred
from xla_server.rpc.methods.runs import METHODS
from xla_server.sessions.session import Session


@pytest.fixture
def service() -> Iterator[Session]:
    with open_service() as made:
        yield made


class Call:
    """A call of RunBatch; answers that are given later wait for `gate`."""

    def __init__(self, service: Session, *runs: extension_pb2.RunRequest) -> None:
        self.outcomes: list[Any] = []
        self.cancellation = Cancellation()
        self.gate = threading.Event()
        self._threads = ThreadPoolExecutor(1)
        self._threads.submit(self.gate.wait, 20)
        row = METHODS["RunBatch"]
        assert isinstance(row, Deferred)
        request = extension_pb2.RunBatchRequest(runs=runs)
        row.method(service, request, self.cancellation, Responder(self._finish, self._threads))

    def outcome(self) -> Any:
        until(lambda: bool(self.outcomes))
        self.gate.set()
        self._threads.shutdown()
        return self.outcomes[0]

    def _finish(self, make_response: Callable[[], Any]) -> bool:
        try:
            self.outcomes.append(make_response())
        except BaseException as error:
            self.outcomes.append(error)
        return True


def test_a_stopped_batch_ends_as_requested(service: Session) -> None:
    loop = run_request(step(compiled(service, endless()), value(ONES)))
    call = Call(service, loop, loop)
    until(lambda: service.running.used == 2)
    call.cancellation.cancel(DeadlineExceededError("the deadline of the call passed"))
    # The runs see it first, and their outcomes are not what the call is answered with.
    until(lambda: service.running.used == 0)
    call.gate.set()
    assert isinstance(call.outcome(), DeadlineExceededError)


def test_a_batch_begins_when_its_values_are_there(service: Session) -> None:
    double = compiled(service, DOUBLE)
    gate, coming = launch_endless(service)
    call = Call(
        service,
        run_request(step(double, coming, fetch=16)),
        run_request(step(double, value(ONES), fetch=16)),
    )
    until(lambda: service.running.used == 1)
    assert not call.outcomes
    service.executions.cancel(gate.handle)
    waiting, running = call.outcome().outcomes
    assert b"of endless" in waiting.status
    assert running.HasField("response")


def test_a_batch_that_cannot_begin_is_answered(service: Session) -> None:
    assert isinstance(Call(service).outcome(), InvalidArgumentError)
