"""Runs whose steps are done by several devices together, by Run and by Launch."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.sessions.runs.grids.test_grid_runner import on_grid, session
from tests.unit.sessions.sample_runs import (
    DOUBLE,
    ONES,
    argument_of,
    compiled,
    emptied,
    endless,
    execute,
    keep,
    kept,
    result_of,
    run_request,
    step,
    value,
)
from xla_client import Builder, Computation, ops
from xla_contract.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_server.rpc.decode.runs import read_run
from xla_server.sessions.runs.planner import plan_run
from xla_server.sessions.session import Session


@pytest.fixture
def service() -> Iterator[Session]:
    with emptied(session()) as made:
        yield made


def summed() -> Computation:
    builder = Builder("summed")
    x = builder.parameter(0, "f32[4]")
    return builder.build(ops.all_reduce(x, ops.add))


def launched_alone(service: Session, run: Any) -> Any:
    """The result of a launched run, by its first output."""
    execution = service.executions.launch(read_run(run))
    until(lambda: execution.is_done)
    service.executions.wait(execution.handle)
    return service.data.get(execution.outputs[-1][0]).to_literal().to_numpy()


def run_at_once(service: Session, run: Any) -> Any:
    return execute(service, *run.steps)[-1].kept[0].to_literal().to_numpy()


ROADS = pytest.mark.parametrize("road", [run_at_once, launched_alone])


@ROADS
@pytest.mark.parametrize("is_donated", [False, True])
def test_steps_of_one_device_and_of_several_follow_each_other(
    service: Session, road: Callable[..., Any], is_donated: bool
) -> None:
    double, total = compiled(service, DOUBLE), on_grid(service, summed())
    given = kept(service, ONES)
    result = road(
        service,
        run_request(
            step(total, argument_of(given, donate=is_donated)),
            step(double, result_of(0)),
            step(total, result_of(1), output=keep()),
        ),
    )
    np.testing.assert_array_equal(result, 32 * ONES)
    assert service.running.used == service.data.reserved_bytes == 0
    if is_donated:
        with pytest.raises(InvalidArgumentError, match="unregistered"):
            service.data.get(given)


def test_memory_is_reserved_for_all_devices(service: Session) -> None:
    sizes = []
    for executable in (on_grid(service, DOUBLE, 1), on_grid(service, DOUBLE, 4)):
        run = plan_run(service.grids, read_run(run_request(step(executable, value(ONES)))))
        sizes.append(run.steps[0].byte_size)
        run.close()
    assert sizes == [16, 4 * 16]


def test_arguments_that_do_not_fit_are_refused_before_anything_runs(service: Session) -> None:
    total, odd = on_grid(service, summed()), kept(service, np.ones(5, np.float32))
    for source in (argument_of(odd), value(np.ones(5, np.float32))):
        with pytest.raises(InvalidArgumentError, match=r"step 0: argument 0: .*f32\[5\].*f32\[4\]"):
            execute(service, step(total, source))


def test_a_failing_device_is_named(service: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    total, run = on_grid(service, summed()), service.runner.run

    def failing(compiled: Any, arguments: Any, device: Any, *rest: Any, **named: Any) -> Any:
        if device.ordinal == 2:
            raise AbortedError("mine")
        return run(compiled, arguments, device, *rest, **named)

    monkeypatch.setattr(service.runner, "run", failing)
    with pytest.raises(AbortedError, match=r"^replica 2, partition 0: mine$"):
        execute(service, step(total, value(ONES), output=keep()))
    assert not len(service.data)


def test_a_launched_run_is_one_execution_and_is_cancelled_on_all_devices(service: Session) -> None:
    loop = on_grid(service, endless())
    execution = service.executions.launch(
        read_run(run_request(step(loop, value(ONES), output=keep())))
    )
    until(lambda: bool(service.running.used))
    assert service.running.used == 1
    assert service.executions.cancel(execution.handle)
    until(lambda: execution.is_done)
    with pytest.raises(CancelledError, match=r"CancelExecution was called"):
        service.executions.wait(execution.handle)


def test_more_memory_than_all_devices_have_is_refused(service: Session) -> None:
    builder = Builder("large")
    large = builder.build(ops.broadcast(builder.parameter(0, "f32[4]"), (30,)))
    execute(service, step(on_grid(service, large, 1), value(ONES), output=keep()))
    with pytest.raises(ResourceExhaustedError, match="an execution"):
        execute(service, step(on_grid(service, large, 5), value(ONES), output=keep()))
