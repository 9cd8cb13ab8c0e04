"""The end of RunBatch, whichever of its threads is first."""

from collections.abc import Iterator

import pytest

from tests.fault.plain import until
from tests.unit.rpc.methods.deferred_call import DeferredCall
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
from xla_server.rpc.methods.runs import METHODS
from xla_server.sessions.session import Session


@pytest.fixture
def service() -> Iterator[Session]:
    with open_service() as made:
        yield made


def called(service: Session, *runs: extension_pb2.RunRequest) -> DeferredCall:
    return DeferredCall(METHODS["RunBatch"], service, extension_pb2.RunBatchRequest(runs=runs))


def test_a_stopped_batch_ends_as_requested(service: Session) -> None:
    loop = run_request(step(compiled(service, endless()), value(ONES)))
    call = called(service, loop, loop)
    until(lambda: service.running.used == 2)
    call.cancellation.cancel(DeadlineExceededError("the deadline of the call passed"))
    # The runs see it first, and their outcomes are not what the call is answered with.
    until(lambda: service.running.used == 0)
    assert isinstance(call.outcome(), DeadlineExceededError)


def test_a_batch_begins_when_its_values_are_there(service: Session) -> None:
    double = compiled(service, DOUBLE)
    gate, coming = launch_endless(service)
    call = called(
        service,
        run_request(step(double, coming, fetch=16)),
        run_request(step(double, value(ONES), fetch=16)),
    )
    until(lambda: service.running.used == 1)
    assert not call.outcomes
    service.executions.cancel(gate.handle)
    until(lambda: bool(call.outcomes))
    waiting, running = call.outcome().outcomes
    assert b"of endless" in waiting.status
    assert running.HasField("response")


def test_a_batch_that_cannot_begin_is_answered(service: Session) -> None:
    call = called(service)
    until(lambda: bool(call.outcomes))
    assert isinstance(call.outcome(), InvalidArgumentError)
