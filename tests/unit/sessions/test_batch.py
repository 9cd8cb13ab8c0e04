import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.sessions.runs import (
    DOUBLE,
    ONES,
    argument_of,
    compiled,
    endless,
    launch_endless,
    open_service,
    run_request,
    step,
    value,
)
from xla_contract.errors import CancelledError, InvalidArgumentError, XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.literals.value_proto import value_from_proto
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.extension_run import run_in_place
from xla_server.sessions.batch import Batch, RunOne
from xla_server.sessions.executions import executions_of
from xla_server.sessions.pending import NotYetError
from xla_server.sessions.quotas import Quotas
from xla_server.sessions.records import Limits
from xla_server.sessions.service import XlaService


@pytest.fixture
def service() -> Iterator[XlaService]:
    quotas = Quotas(device_bytes=1 << 20, concurrent_executions=2)
    with open_service(Limits(1 << 20), quotas) as made:
        yield made


def outcomes(
    service: XlaService,
    runs: Sequence[extension_pb2.RunRequest],
    cancellation: Cancellation | None = None,
) -> Any:
    found: list[Any] = []
    done = threading.Event()

    def finish(given: Sequence[Any]) -> None:
        found.extend(given)
        done.set()

    Batch(service, runs, cancellation or Cancellation(), run_in_place, finish).start()
    assert done.wait(100)
    return found


def test_every_run_has_an_outcome_of_its_own(service: XlaService) -> None:
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


def _told_with(service: XlaService, runs: int, run: RunOne) -> int:
    """The places that are taken when the outcomes of a batch are told."""
    request = run_request(step(compiled(service, DOUBLE), value(ONES), fetch=16))
    used: list[int] = []
    done = threading.Event()

    def finish(_: Sequence[Any]) -> None:
        used.append(service.running.used)
        done.set()

    Batch(service, [request] * runs, Cancellation(), run, finish).start()
    assert done.wait(100)
    (found,) = used
    return found


def test_places_are_free_when_the_outcomes_are_told(
    service: XlaService, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_back, leaving = service.running.give_back, threading.Event()

    def slow_at_first() -> None:
        if not leaving.is_set():
            leaving.set()
            time.sleep(0.2)
        give_back()

    def run(*arguments: Any) -> extension_pb2.RunResponse:
        response = run_in_place(*arguments)
        with begun:
            is_first = not counted
            counted.append(1)
        if is_first:  # Until the thread of the other one is leaving.
            assert leaving.wait(100)
        return response

    begun, counted = threading.Lock(), list[int]()
    monkeypatch.setattr(service.running, "give_back", slow_at_first)
    assert _told_with(service, 2, run) == 0


def test_the_place_of_a_thread_that_has_not_begun_is_free_too(
    service: XlaService, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, late = service.engine.execution_threads, list[Callable[[], object]]()
    submit = threads.submit_for
    monkeypatch.setattr(
        threads,
        "submit_for",
        lambda flow, do: late.append(do) if submitted.pop() else submit(flow, do),
    )
    submitted = [True, False]
    assert _told_with(service, 3, run_in_place) == 0
    (begin,) = late
    # It finds that there is nothing to do, and has no place to leave.
    begin()
    assert service.running.used == 0


def test_a_batch_has_a_size(service: XlaService) -> None:
    for count in (0, 1025):
        with pytest.raises(InvalidArgumentError, match=f"between 1 and 1024 runs, got {count}"):
            outcomes(service, [extension_pb2.RunRequest()] * count)


def test_all_runs_are_stopped_those_in_line_too(service: XlaService) -> None:
    loop = compiled(service, endless())
    cancellation = Cancellation()
    threading.Timer(0.1, cancellation.cancel).start()
    found = outcomes(service, [run_request(step(loop, value(ONES)))] * 5, cancellation)
    assert [type(one) for one in found] == [CancelledError] * 5
    assert service.running.used == 0
    assert service.data.reserved_bytes == 0


def test_a_batch_waits_for_values_before_it_takes_a_place(service: XlaService) -> None:
    double = compiled(service, DOUBLE)
    gate, coming = launch_endless(service)
    batch = [run_request(step(double, coming, fetch=16))]
    with pytest.raises(NotYetError):
        outcomes(service, batch)
    executions_of(service).cancel(gate.handle)
    done = threading.Event()
    gate.when_done(done.set)
    assert done.wait(100)
    (found,) = outcomes(service, batch)
    assert isinstance(found, CancelledError)
    assert f"execution {gate.handle} of endless" in found.message
