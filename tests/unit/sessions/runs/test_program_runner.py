"""Compiling and running on the values of a session: what is refused, and what is left after it."""

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import Pool, shared_resources
from tests.unit.sessions.sample_runs import (
    ADD,
    DOUBLE,
    MATRIX,
    PAIR,
    compiled,
    emptied,
    endless,
    kept,
    program,
)
from xla_client import Builder, Computation, Shape, ops
from xla_contract.errors import (
    CancelledError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    XlaError,
)
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.sessions.feeds.device_table import DeviceHandle
from xla_server.sessions.limits.blocking import current_worker, worker_context
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.runs.explanations import explain
from xla_server.sessions.runs.requests import ExecutionResult, GraphProgram
from xla_server.sessions.session import Session

ONES = np.ones(4, np.float32)
VECTOR = Shape.parse("f32[4]{0}")
Options = xla_pb2.ExecutionOptions


def session(device_count: int = 3, **quotas: Any) -> Session:
    quotas = {"device_bytes": 1000, "handles": 20, "concurrent_executions": 2} | quotas
    return Session(shared_resources(1000, Quotas(**quotas), device_count))


@pytest.fixture
def service() -> Iterator[Session]:
    with emptied(session()) as made:
        yield made


def read(service: Session, executed: ExecutionResult) -> Any:
    return service.transfer_to_client(executed.output, None).to_numpy()


def request(
    what: str | Computation | None,
    *arguments: int | None,
    device: int = 0,
    devices: Sequence[DeviceHandle] | None = None,
) -> GraphProgram:
    computation = program(what) if isinstance(what, str) else what
    proto = None if computation is None else computation.proto
    own = [DeviceHandle(device, device + 1)] if devices is None else devices
    read = functools.partial(read_compile_request, proto, Options(), InternalError)
    return GraphProgram(read, arguments, own)


def refused(
    service: Session, requests: Sequence[GraphProgram], error: type[XlaError], rule: str
) -> None:
    """The requests are refused, and leave nothing behind."""
    before = service.data.used_bytes, len(service.data)
    with pytest.raises(error, match=rule) as caught:
        service.grids.execute_graphs(requests, Cancellation())
    assert type(caught.value) is error
    assert (service.data.used_bytes, len(service.data)) == before
    assert service.data.reserved_bytes == service.running.used == 0


# Compile and Execute ------------------------------------------------------------------------


def test_a_program_is_compiled_once_and_run(service: Session) -> None:
    first, again = compiled(service, DOUBLE), compiled(service, DOUBLE)
    argument = kept(service, ONES)
    for handle, was_there in ((first, False), (again, True)):
        executed = service.runner.execute(handle, [argument], Cancellation())
        np.testing.assert_array_equal(read(service, executed), 2 * ONES)
        assert executed.profile.compilation_cache_hit is was_there
        assert executed.profile.compute_time_ns > 0
    assert service.data.reserved_bytes == service.running.used == 0


def test_a_call_that_was_cancelled_compiles_nothing(
    service: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, cancellation = compiled(service, DOUBLE), Cancellation()
    argument = kept(service, ONES)
    monkeypatch.setattr(service.engine.backend, "compile", None)
    cancellation.cancel()
    with pytest.raises(CancelledError):
        explain(
            service.runner,
            handle,
            cancellation,
            formats=frozenset(),
            passes=None,
            is_profiled=False,
            arguments=(),
            max_bytes=1 << 20,
        )
    with pytest.raises(CancelledError):
        service.grids.execute_graphs([request(ADD, argument, argument)], cancellation)


@pytest.mark.parametrize("how", ["together", "again"])
def test_a_thread_for_executions_lends_its_slot_while_it_compiles(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # The cache holds the code of one program.
    service = Session(shared_resources(1000, max_executables=1))
    pool, lent, backend = Pool(), list[int](), service.engine.backend
    compile_program = backend.compile

    def compile_and_count(*arguments: Any, **named: Any) -> Any:
        lent.append(pool.lent)
        return compile_program(*arguments, **named)

    monkeypatch.setattr(backend, "compile", compile_and_count)
    argument, before = kept(service, ONES), current_worker().pool
    worker_context(pool)
    try:
        if how == "together":
            service.grids.execute_graphs([request(DOUBLE, argument)], Cancellation())
            assert lent == [1]
        else:
            handle = compiled(service, DOUBLE)
            compiled(service, ADD)
            service.runner.execute(handle, [argument], Cancellation())
            assert lent == [0, 0, 1]
    finally:
        worker_context(before)  # type: ignore[arg-type]
        service.close()
    assert pool.lent == 0


def test_a_program_is_compiled_for_one_device(service: Session) -> None:
    options = Options()
    for _ in range(2):
        options.device_handles.add(handle=0, device_count=1)
    wanted = read_compile_request(program(DOUBLE).proto, options)
    with pytest.raises(InvalidArgumentError, match=r"at most one device handle, got 2$"):
        service.runner.compile(wanted, [VECTOR], Cancellation())


def test_an_executable_is_needed(service: Session) -> None:
    with pytest.raises(InvalidArgumentError, match=r"must hold an executable's handle, got none$"):
        service.runner.execute(None, [], Cancellation())
    argument = kept(service, ONES)
    for handle in (12345, argument):
        with pytest.raises(NotFoundError, match=f"of this session is needed, got {handle}"):
            service.runner.execute(handle, [], Cancellation())
    gone = compiled(service, DOUBLE)
    service.unregister([gone])
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        service.runner.execute(gone, [argument], Cancellation())


def test_arguments_are_what_the_program_was_compiled_for(service: Session) -> None:
    add, matrix = compiled(service, ADD), compiled(service, MATRIX)
    one = kept(service, ONES)
    columns = Literal.from_numpy(np.eye(2, dtype=np.float32), Shape.parse("f32[2,2]{0,1}"))
    turned = kept(service, columns)

    def bad(handle: int, arguments: Sequence[int | None], error: type[XlaError], rule: str) -> None:
        with pytest.raises(error, match=rule):
            service.runner.execute(handle, arguments, Cancellation())
        assert service.data.reserved_bytes == 0

    bad(add, [one], InvalidArgumentError, "one argument per parameter, got 1 for 2 parameters$")
    bad(add, [one, turned], InvalidArgumentError, r"argument 1 must have .*\{0,1\} for f32\[4\]")
    assert (
        service.data.shape(service.runner.execute(matrix, [turned], Cancellation()).output).rank
        == 2
    )
    bad(add, [one, None], InvalidArgumentError, "^argument 1: .*must hold a data handle, got none")
    bad(add, [one, 12345], NotFoundError, "^argument 1: .*12345")
    service.unregister([one])
    bad(add, [one, one], InvalidArgumentError, "^argument 0: .*unregistered")


def test_memory_for_the_result_is_set_aside_before_it_runs(service: Session) -> None:
    big = compiled(service, "big")
    argument = kept(service, ONES)
    with pytest.raises(ResourceExhaustedError, match=r"1000 bytes.*got 1600 .*with 16 in use"):
        service.runner.execute(big, [argument], Cancellation())
    assert service.data.reserved_bytes == service.running.used == 0


def test_only_so_many_run_at_the_same_time(service: Session) -> None:
    loop, argument = compiled(service, endless()), kept(service, ONES)
    cancellation = Cancellation()
    errors: list[XlaError] = []

    def run() -> None:
        try:
            service.runner.execute(loop, [argument], cancellation)
        except XlaError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: service.running.used == 2)
    with pytest.raises(ResourceExhaustedError, match="2 executions at the same time, got one more"):
        service.runner.execute(loop, [argument], cancellation)
    assert service.running.used == 2
    cancellation.cancel(CancelledError("enough"))
    for thread in threads:
        thread.join(100)
    assert [error.message for error in errors] == ["enough"] * 2
    assert service.data.reserved_bytes == service.running.used == 0


@pytest.mark.parametrize("what", [DOUBLE, "fails"])
def test_the_memory_of_an_execution_is_free_before_its_slot(
    service: Session, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    handle, argument = compiled(service, DOUBLE), kept(service, ONES)
    if what == "fails":
        monkeypatch.setattr(service.runner, "run", lambda *_: 1 // 0)
    release, reserved = service.running.release, list[int]()

    def noted() -> None:
        reserved.append(service.data.reserved_bytes)
        release()

    monkeypatch.setattr(service.running, "release", noted)
    with contextlib.suppress(ZeroDivisionError):
        service.runner.execute(handle, [argument], Cancellation())
    assert reserved == [0]
    assert service.running.used == 0


def test_who_has_spent_the_time_for_compiling_still_has_what_is_compiled() -> None:
    service = session(compile_seconds=1e-9)
    compiled(service, DOUBLE)
    compiled(service, DOUBLE)
    with pytest.raises(ResourceExhaustedError, match="may compile for 1e-09 s within an hour"):
        compiled(service, ADD)
    service.close()


# ExecuteGraphParallel -----------------------------------------------------------------------


def test_programs_run_each_on_its_device(service: Session) -> None:
    one = kept(service, ONES)
    requests = [request(DOUBLE, one, device=2), request(PAIR, one, device=1)]
    double, pair = service.grids.execute_graphs(requests, Cancellation())
    np.testing.assert_array_equal(read(service, double), 2 * ONES)
    np.testing.assert_array_equal(read(service, pair), [ONES, 2 * ONES])
    assert [service.data.get(each.output).device.ordinal for each in (double, pair)] == [2, 1]
    # Where a value is does not say where it can be used.
    (again,) = service.grids.execute_graphs([request(DOUBLE, double.output)], Cancellation())
    np.testing.assert_array_equal(read(service, again), 4 * ONES)
    assert service.data.get(again.output).device.ordinal == 0
    # The compiled program has no handle.
    assert len(service.executables) == 0


def test_requests_name_devices_that_there_are(service: Session) -> None:
    first, second = DeviceHandle(0, 1), DeviceHandle(1, 2)
    both = request(DOUBLE, devices=[first, second])
    none = request(DOUBLE, devices=[])
    refused(service, [], InvalidArgumentError, "must be at least one request, got none$")
    refused(
        service,
        [request(DOUBLE), both],
        InvalidArgumentError,
        "each of several requests must have one device handle, got 2 in request 1$",
    )
    for requests, number in (([none], 0), ([request(DOUBLE), none], 1)):
        refused(
            service,
            requests,
            FailedPreconditionError,
            f"must have a device handle in execution_options, got none in request {number}$",
        )
    refused(
        service,
        [request(DOUBLE)] * 4,
        FailedPreconditionError,
        "has 3 devices, got requests for 4$",
    )
    refused(service, [request(DOUBLE, device=3)], InvalidArgumentError, "below 3, got 3")
    wrong = request(DOUBLE, devices=[DeviceHandle(2, 2)])
    refused(service, [wrong], InternalError, "below its device_count, got handle 2 of 2")


def test_an_error_names_the_request_and_leaves_nothing(service: Session) -> None:
    one = kept(service, ONES)
    good = request(DOUBLE, one)

    def bad(second: GraphProgram, error: type[XlaError], rule: str) -> None:
        refused(service, [good, second], error, f"^request 1: {rule}")

    bad(request(None, device=1), InternalError, "the request must hold a computation, got none$")
    bad(request(ADD, one, None, device=1), InvalidArgumentError, "argument 1: .*data handle, got n")
    bad(request(ADD, one, 12345, device=1), NotFoundError, "argument 1: .*12345")
    bad(request(ADD, one, device=1), InvalidArgumentError, "there must be one argument per param")
    bad(request(MATRIX, one, device=1), InvalidArgumentError, "argument 0 must have the shape")
    bad(request("big", one, device=1), ResourceExhaustedError, "values of a session may take 1000")


def test_the_error_of_the_first_to_fail_is_reported_and_the_others_stop(service: Session) -> None:
    one = kept(service, ONES)
    # One waits for what is never fed, until the other has failed.
    builder = Builder("waits")
    waits = builder.build(builder.infeed(Shape.parse("f32[4]")))
    builder = Builder("fails")
    sent = builder.parameter(0, VECTOR)
    ops.send(sent, 77)
    fails = builder.build(sent)
    refused(
        service,
        [request(waits), request(fails, one, device=1)],
        FailedPreconditionError,
        "^request 1: send .*both ends in the programs of one call.*got channel 77$",
    )
    assert service.use().queued_items == 0


def test_results_are_kept_all_or_none() -> None:
    service = session(handles=2)
    one = kept(service, ONES)
    requests = [request(DOUBLE, one), request(DOUBLE, one, device=1)]
    refused(service, requests, ResourceExhaustedError, "2 .*handles|handles.* 2")
    assert len(service.data) == 1
    (executed,) = service.grids.execute_graphs(requests[:1], Cancellation())
    assert len(service.data) == 2
    service.unregister([executed.output])
    service.close()
    assert service.engine.memory.used_bytes == 0


def test_each_of_them_takes_a_slot(service: Session) -> None:
    one = kept(service, ONES)
    requests = [request(endless(), one, device=number) for number in range(3)]
    refused(service, requests, ResourceExhaustedError, r"^request \d: .*2 executions at the same")
