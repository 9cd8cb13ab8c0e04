import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.sessions.sample_runs import (
    DOUBLE,
    ONES,
    argument_of,
    compiled,
    endless,
    launch_endless,
    open_service,
    run_request,
    start_batch,
    step,
    value,
)
from tests.unit.waiting import frames
from xla_contract.errors import CancelledError, InvalidArgumentError, XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.literals.value_proto import value_from_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.methods.runs import run_with_slot
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.session import Session
from xla_server.sessions.values.futures import ValuePendingError


@pytest.fixture
def service() -> Iterator[Session]:
    quotas = Quotas(device_bytes=1 << 20, concurrent_executions=2)
    with open_service(quotas=quotas) as made:
        yield made


def outcomes(
    service: Session,
    runs: Sequence[extension_pb2.RunRequest],
    cancellation: Cancellation | None = None,
) -> Any:
    found: list[Any] = []
    done = threading.Event()

    def finish(given: Sequence[Any]) -> None:
        found.extend(given)
        done.set()

    start_batch(service, runs, cancellation or Cancellation(), finish)
    assert done.wait(100)
    return found


def test_every_run_has_an_outcome_of_its_own(service: Session) -> None:
    double = compiled(service, DOUBLE)
    runs = [run_request(step(double, value(number * ONES), fetch=16)) for number in range(50)]
    runs[7] = run_request(step(double))
    runs[9] = run_request(step(double, argument_of(12345)))
    for number, outcome in enumerate(outcomes(service, runs)):
        if number in (7, 9):
            assert isinstance(outcome, XlaError)
            assert "step 0" in outcome.message
        else:
            array = value_from_proto(outcome.results[0].value).to_numpy()
            np.testing.assert_array_equal(array, 2 * number * ONES)
    assert service.running.used == 0


def _told_with(service: Session, runs: int, run: Callable[..., Any]) -> int:
    """Return the slots in use when the outcomes of a batch are reported."""
    request = run_request(step(compiled(service, DOUBLE), value(ONES), fetch=16))
    used: list[int] = []
    done = threading.Event()

    def finish(_: Sequence[Any]) -> None:
        used.append(service.running.used)
        done.set()

    start_batch(service, [request] * runs, Cancellation(), finish, run)
    assert done.wait(100)
    (found,) = used
    return found


def test_slots_are_free_when_the_outcomes_are_reported(
    service: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, leaving = service.running.release, threading.Event()

    def slow_at_first() -> None:
        if not leaving.is_set():
            leaving.set()
            # Until the thread of the other one is back in its pool.
            until(lambda: frames()[others[0]].f_code.co_name == "_work")
        release()

    def run(*arguments: Any) -> extension_pb2.RunResponse:
        response = run_with_slot(*arguments)
        with begun:
            others.append(threading.get_ident())
            is_first = len(others) == 1
        if is_first:  # Until the thread of the other one is leaving.
            assert leaving.wait(100)
        return response

    begun, others = threading.Lock(), list[int]()
    monkeypatch.setattr(service.running, "release", slow_at_first)
    assert _told_with(service, 2, run) == 0


def test_the_slot_of_a_thread_that_has_not_begun_is_free_too(
    service: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, late = service.engine.execution_threads, list[Callable[[], object]]()
    submit = threads.submit_for
    monkeypatch.setattr(
        threads,
        "submit_for",
        lambda flow, do: late.append(do) if submitted.pop() else submit(flow, do),
    )
    submitted = [True, False]
    assert _told_with(service, 3, run_with_slot) == 0
    (begin,) = late
    # It finds no run to begin, and has no slot to leave.
    begin()
    assert service.running.used == 0


def test_a_batch_has_a_size(service: Session) -> None:
    for count in (0, 1025):
        with pytest.raises(InvalidArgumentError, match=f"between 1 and 1024 runs, got {count}"):
            outcomes(service, [extension_pb2.RunRequest()] * count)


def test_all_runs_are_stopped_those_in_line_too(service: Session) -> None:
    loop = compiled(service, endless())
    cancellation = Cancellation()

    def cancel() -> None:
        until(lambda: service.running.used == 2)
        cancellation.cancel()

    threading.Thread(target=cancel).start()
    found = outcomes(service, [run_request(step(loop, value(ONES)))] * 5, cancellation)
    assert [type(one) for one in found] == [CancelledError] * 5
    assert service.running.used == 0
    assert service.data.reserved_bytes == 0


def test_a_batch_waits_for_values_before_it_takes_a_slot(service: Session) -> None:
    double = compiled(service, DOUBLE)
    gate, coming = launch_endless(service)
    batch = [run_request(step(double, coming, fetch=16))]
    with pytest.raises(ValuePendingError):
        outcomes(service, batch)
    service.executions.cancel(gate.handle)
    done = threading.Event()
    gate.when_done(done.set)
    assert done.wait(100)
    (found,) = outcomes(service, batch)
    assert isinstance(found, CancelledError)
    assert f"execution {gate.handle} of endless" in found.message
