import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import (
    ADD,
    DOUBLE,
    argument_of,
    compiled,
    endless,
    keep,
    kept,
    result_of,
    run_request,
    step,
    value,
)
from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    XlaError,
)
from xla_server.backends.platform import Profile
from xla_server.execution.completion import Completion
from xla_server.rpc.decode.runs import read_run
from xla_server.sessions.error_context import ExecutionFaultError
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.runs.background_executions import LaunchedExecution
from xla_server.sessions.session import Session
from xla_server.sessions.values.futures import ValuePendingError

ONES = np.ones(4, np.float32)

LAUNCHED = 130


@pytest.fixture
def service() -> Iterator[Session]:
    quotas = Quotas(
        device_bytes=1 << 20, handles=2000, concurrent_executions=2, launched_executions=LAUNCHED
    )
    made = Session(shared_resources(1 << 20, quotas))
    yield made
    made.close()
    until(lambda: not made.engine.launched and made.engine.memory.used_bytes == 0)


def there(awaited: Completion) -> None:
    done = threading.Event()
    awaited.when_done(done.set)
    assert done.wait(100)


def launch(service: Session, executable: int, *arguments: object) -> LaunchedExecution:
    request = run_request(step(executable, *arguments, output=keep()))  # type: ignore[arg-type]
    return service.executions.launch(read_run(request))


def output(execution: LaunchedExecution) -> int:
    return execution.outputs[0][0]


def waited(service: Session, execution: LaunchedExecution) -> tuple[int | None, Profile]:
    there(execution)
    return service.executions.wait(execution.handle)


def fetched(service: Session, handle: int) -> object:
    return service.data.get(handle).to_literal().to_numpy()


def test_outputs_are_there_before_they_have_values(service: Session) -> None:
    loop, double = compiled(service, endless()), compiled(service, DOUBLE)
    running = launch(service, loop, value(ONES))
    assert service.data.shape(output(running)).dimensions == (4,)
    with pytest.raises(ValuePendingError):
        service.data.get(output(running))
    with pytest.raises(ValuePendingError):
        service.executions.wait(running.handle)
    assert service.use().launched_executions == 1
    waiting = launch(service, double, argument_of(output(running)))
    assert service.executions.cancel(running.handle)
    # The one that failed is named in the errors of all users of its results.
    for execution in (running, waiting):
        with pytest.raises(CancelledError, match=f"execution {running.handle} of endless: "):
            waited(service, execution)
        with pytest.raises(CancelledError, match="of endless"):
            service.data.get(output(execution))
        with pytest.raises(CancelledError, match="of endless"):
            service.data.shape(output(execution))
    service.unregister([output(running), output(waiting)])


def test_a_long_chain_runs_in_order_and_frees_what_it_donates(service: Session) -> None:
    add = compiled(service, ADD)
    held = one = kept(service, ONES)
    executions = []
    for _ in range(100):
        executions.append(
            launch(service, add, argument_of(held, donate=held != one), argument_of(one))
        )
        held = output(executions[-1])
    last, profile = waited(service, executions[-1])
    assert last == held
    assert profile.compute_time_ns > 0
    np.testing.assert_array_equal(fetched(service, held), 101 * ONES)
    assert len(service.data) == 2
    with pytest.raises(NotFoundError, match="waited for before"):
        service.executions.wait(executions[-1].handle)


def test_the_failure_of_a_long_chain_reaches_its_end(service: Session) -> None:
    loop, double = compiled(service, endless()), compiled(service, DOUBLE)
    first = last = launch(service, loop, value(ONES))
    for _ in range(LAUNCHED - 1):
        last = launch(service, double, argument_of(output(last)))
    service.executions.cancel(first.handle)
    with pytest.raises(CancelledError, match=f"^execution {first.handle} of endless: [^:]*$"):
        waited(service, last)


def test_a_value_in_use_is_not_written_over(service: Session) -> None:
    loop, double = compiled(service, endless()), compiled(service, DOUBLE)
    held = kept(service, ONES)
    gate = launch(service, loop, argument_of(held))
    until(lambda: service.running.used == 1)
    donor = launch(service, double, argument_of(held, donate=True))
    waited(service, donor)
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        service.data.get(held)
    # The values of a running execution still count.
    assert service.data.used_bytes == 32
    service.executions.cancel(gate.handle)
    there(gate)
    until(lambda: service.data.used_bytes == 16)


def test_an_output_freed_before_it_comes_is_freed_when_it_comes(service: Session) -> None:
    double = compiled(service, DOUBLE)
    loop = compiled(service, endless())
    gates = [launch(service, loop, value(ONES)) for _ in range(2)]
    execution = launch(service, double, value(ONES))
    user = launch(service, double, argument_of(output(execution)))
    service.unregister([output(execution)])
    for gate in gates:
        service.executions.cancel(gate.handle)
    assert waited(service, execution)[0] is not None
    waited(service, user)
    np.testing.assert_array_equal(fetched(service, output(user)), 4 * ONES)
    until(lambda: service.data.used_bytes == 16)


def test_executions_beyond_the_quota_stand_in_line(service: Session) -> None:
    loop, double = compiled(service, endless()), compiled(service, DOUBLE)
    gates = [launch(service, loop, value(ONES)) for _ in range(2)]
    until(lambda: service.running.used == 2)
    waiting = launch(service, double, value(ONES))
    with pytest.raises(ResourceExhaustedError, match="2 executions at the same time"):
        service.running.acquire()
    # It would have a slot, or be done.
    assert service.running.used == 2
    assert not waiting.is_done
    service.executions.cancel(gates[0].handle)
    waited(service, waiting)
    # One that stands in line is cancelled there.
    launch(service, loop, value(ONES))
    until(lambda: service.running.used == 2)
    waiting = launch(service, double, value(ONES))
    assert service.executions.cancel(waiting.handle)
    with pytest.raises(CancelledError):
        waited(service, waiting)


def test_the_slot_is_free_when_the_end_is_reported(service: Session) -> None:
    double, loop = compiled(service, DOUBLE), compiled(service, endless())
    seen: list[tuple[int, int]] = []

    def launch_noting(executable: int) -> LaunchedExecution:
        launched = launch(service, executable, value(ONES))
        launched.when_done(lambda: seen.append((service.running.used, len(service.executions))))
        return launched

    # One that ends by itself, and one that is stopped as it runs.
    there(launch_noting(double))
    stopped = launch_noting(loop)
    until(lambda: service.data.reserved_bytes > 0)
    stopped.cancellation.cancel(CancelledError("enough"))
    there(stopped)
    assert seen == [(0, 0), (0, 0)]


def test_too_many_are_refused(service: Session) -> None:
    loop = compiled(service, endless())
    request = run_request(step(loop, value(ONES)))
    for _ in range(LAUNCHED):
        service.executions.launch(read_run(request))
    before = len(service.data), service.data.reserved_bytes
    with pytest.raises(ResourceExhaustedError, match=r"130 executions that.*with 130 there"):
        launch(service, loop, value(ONES))
    assert (len(service.data), service.data.reserved_bytes) == before


def test_what_is_wrong_leaves_nothing_behind(service: Session) -> None:
    double = compiled(service, DOUBLE)
    held = kept(service, ONES)
    for bad in (
        step(double, value(ONES), fetch=16),
        step(double, argument_of(77)),
        step(double),
    ):
        with pytest.raises(XlaError):
            service.executions.launch(read_run(run_request(bad)))
    assert service.use().launched_executions == 0
    assert service.data.get(held)
    for call in (service.executions.wait, service.executions.cancel):
        for handle in (0, 77, double, held):
            with pytest.raises(NotFoundError, match="handle of an execution"):
                call(handle)


def test_an_execution_can_be_forgotten(service: Session) -> None:
    execution = launch(service, compiled(service, DOUBLE), value(ONES))
    service.unregister([execution.handle])
    with pytest.raises(NotFoundError):
        service.executions.wait(execution.handle)
    there(execution)
    np.testing.assert_array_equal(fetched(service, output(execution)), 2 * ONES)


def test_an_execution_is_described_with_its_outputs_from_the_first_moment(
    service: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = compiled(service, DOUBLE)
    table = service.executions.handles
    add = table.add
    seen: list[list[int]] = []

    def added(execution: LaunchedExecution) -> int:
        handle = add(execution)
        described = dict(service.listing.after(0))[handle]
        assert isinstance(described, LaunchedExecution)
        seen.extend(list(outputs) for outputs in described.outputs)
        return handle

    monkeypatch.setattr(table, "add", added)
    launched = launch(service, double, value(ONES))
    assert seen == launched.outputs
    assert seen != [[]]
    waited(service, launched)


def test_what_has_ended_keeps_no_argument_alive(service: Session) -> None:
    double = compiled(service, DOUBLE)
    held = kept(service, ONES)
    memory = weakref.ref(service.data.get(held).to_literal().value)
    execution = launch(service, double, argument_of(held, donate=True))
    there(execution)
    until(lambda: memory() is None)
    # It has not been waited for, and is remembered.
    assert waited(service, execution)[0] == output(execution)


def test_the_end_of_the_session_stops_all(service: Session) -> None:
    loop = compiled(service, endless())
    executions = [launch(service, loop, value(ONES)) for _ in range(5)]
    until(lambda: service.running.used == 2)
    service.close()
    for execution in executions:
        there(execution)
    assert service.engine.memory.used_bytes == 0
    with pytest.raises(XlaError):
        launch(service, loop, value(ONES))


def test_a_fault_is_reported_with_its_incident(
    service: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = compiled(service, DOUBLE)

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(service.runner, "run", broken)
    with pytest.raises(ExecutionFaultError, match=r"of double: $") as caught:
        waited(service, launch(service, double, value(ONES)))
    assert caught.value.incident


def test_a_handle_of_no_execution_is_not_found(service: Session) -> None:
    executions = service.executions
    loop = launch(service, compiled(service, endless()), value(ONES))
    executions.forget(loop.handle)
    value_handle = kept(service, ONES)
    for handle in (12345, value_handle, loop.handle):
        for use in (executions.get, executions.wait, executions.cancel, executions.forget):
            with pytest.raises(
                NotFoundError, match=f"got {handle}, which is none or was waited for before$"
            ):
                use(handle)
    # One that was forgotten goes on.
    assert executions.handles.has_issued(loop.handle)
    assert not loop.is_done
    loop.cancellation.cancel(CancelledError("enough"))


def test_the_profile_of_several_steps_is_their_sum(service: Session) -> None:
    double, add = compiled(service, DOUBLE), compiled(service, ADD)
    once = run_request(step(double, value(ONES), output=keep()))
    single = waited(service, service.executions.launch(read_run(once)))[1]
    steps = [
        step(double, value(ONES)),
        step(add, result_of(0), value(ONES)),
        step(double, value(ONES)),
    ]
    total = waited(service, service.executions.launch(read_run(run_request(*steps))))[1]
    assert total.executable_size_in_bytes == 3 * single.executable_size_in_bytes
    assert 0 < total.compute_time_ns <= total.compute_and_transfer_time_ns
    assert total.compilation_cache_hit is single.compilation_cache_hit is False
