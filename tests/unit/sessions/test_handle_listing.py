"""A session's descriptions of its handles."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import (
    DOUBLE,
    PAIR,
    argument_of,
    compiled,
    endless,
    keep,
    kept,
    run_request,
    step,
    value,
)
from xla_contract.errors import CancelledError, InvalidArgumentError, NotFoundError
from xla_server.rpc.decode.runs import read_run
from xla_server.sessions.handle_listing import ValueDescription
from xla_server.sessions.programs.executable_table import LoadedExecutable
from xla_server.sessions.runs.background_executions import LaunchedExecution
from xla_server.sessions.session import Session
from xla_server.sessions.values.handles import HandleKind

ONES = np.ones(4, np.float32)


@pytest.fixture
def service() -> Iterator[Session]:
    made = Session(shared_resources())
    yield made
    made.close()


def _launch(service: Session, executable: int, *arguments: object) -> LaunchedExecution:
    request = run_request(step(executable, *arguments, output=keep(flatten=True)))  # type: ignore[arg-type]
    return service.executions.launch(read_run(request))


def _wait(execution: LaunchedExecution) -> None:
    done = threading.Event()
    execution.when_done(done.set)
    assert done.wait(100)


def test_each_kind_is_described(service: Session) -> None:
    held, pair = kept(service, ONES), compiled(service, PAIR)
    execution = _launch(service, pair, value(ONES))
    _wait(execution)
    described = service.listing.describe(held)
    assert isinstance(described, ValueDescription)
    assert (str(described.shape), described.is_pending) == ("f32[4]{0}", False)
    described = service.listing.describe(pair)
    assert isinstance(described, LoadedExecutable)
    assert described.name == PAIR
    assert str(described.program_shape.result) == "(f32[4]{0}, f32[4]{0})"
    # Freeing an output changes nothing about what the execution was.
    service.unregister([execution.outputs[0][0]])
    described = service.listing.describe(execution.handle)
    assert described is execution
    assert (described.name, described.is_done) == (PAIR, True)
    assert len(described.outputs[0]) == 2
    [launched] = described.run.steps
    assert [str(shape) for shape in launched.output.shapes(launched.result)] == ["f32[4]{0}"] * 2
    service.executions.wait(execution.handle)
    with pytest.raises(NotFoundError, match="waited for before"):
        service.listing.describe(execution.handle)


def test_values_to_come_and_values_that_never_will(service: Session) -> None:
    running = _launch(service, compiled(service, endless()), value(ONES))
    output = running.outputs[0][0]
    described = service.listing.describe(output)
    assert isinstance(described, ValueDescription)
    assert (str(described.shape), described.is_pending) == ("f32[4]{0}", True)
    service.executions.cancel(running.handle)
    _wait(running)
    described = service.listing.describe(output)
    assert isinstance(described, ValueDescription)
    assert isinstance(described.error, CancelledError)
    assert not described.is_pending
    assert output in [handle for handle, _ in service.listing.after(0)]


def test_all_are_listed_kind_by_kind_from_any_position_on(service: Session) -> None:
    double = compiled(service, DOUBLE)
    values = [kept(service, ONES) for _ in range(3)]
    pair = compiled(service, PAIR)
    execution = _launch(service, double, argument_of(values[0]))
    _wait(execution)
    every = [*values, *execution.outputs[0], double, pair, execution.handle]
    assert [handle for handle, _ in service.listing.after(0)] == every
    for place, handle in enumerate(every):
        after = [each for each, _ in service.listing.after(handle)]
        assert after == every[place + 1 :]
    service.unregister([values[1]])
    assert [handle for handle, _ in service.listing.after(values[1])] == every[2:]


def test_handles_of_nothing_are_reported(service: Session) -> None:
    freed = kept(service, ONES)
    service.unregister([freed])
    with pytest.raises(InvalidArgumentError, match="unregistered before"):
        service.listing.describe(freed)
    with pytest.raises(NotFoundError, match="never given"):
        service.listing.describe(12345)
    channel = service.handles.issue(HandleKind.DEVICE_TO_DEVICE_CHANNEL)
    for never in (12345, channel):
        with pytest.raises(NotFoundError, match="after must be 0 or the handle of"):
            list(service.listing.after(never))


def test_what_is_freed_while_it_is_listed_is_left_out(service: Session) -> None:
    values = [kept(service, ONES) for _ in range(3)]
    listing = service.listing.after(0)
    assert next(listing)[0] == values[0]
    service.unregister([values[1]])
    assert [handle for handle, _ in listing] == values[2:]
