"""Values that others use before they are computed, on a platform that launches asynchronously."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.runs.test_background_executions import (
    ONES,
    fetched,
    launch,
    output,
    waited,
)
from tests.unit.sessions.sample_runs import (
    ADD,
    DOUBLE,
    argument_of,
    compiled,
    endless,
    value,
)
from xla_contract.errors import CancelledError
from xla_server.backends.platform import Execution
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.runs.background_executions import LaunchedExecution
from xla_server.sessions.session import Session
from xla_server.sessions.values.futures import ValuePendingError


class Asynchronous:
    """A session whose launched runs have results before they end; those of ADD are held up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service = Session(shared_resources(1 << 20))
        self.gate = threading.Event()
        self.run = self.service.runner.run
        self.donated: list[list[int]] = []
        self.double, self.add = (compiled(self.service, name) for name in (DOUBLE, ADD))
        monkeypatch.setattr(self.service.runner, "run", self._run)

    def _run(
        self,
        executable: Any,
        arguments: Any,
        device: Any,
        cancellation: Cancellation,
        donated: Sequence[int],
        label: int,
        launched: Any,
    ) -> Execution:
        self.donated.append(list(donated))
        execution = self.run(executable, arguments, device, cancellation, donated, label)
        if launched is not None:
            launched(execution.output)
        if executable.name == ADD:
            with cancellation.calling(self.gate.set):
                assert self.gate.wait(100)
            cancellation.check()
        return execution

    def held_up(self) -> LaunchedExecution:
        """A launched execution whose output, twos, is set and which does not end."""
        held_up = launch(self.service, self.add, value(ONES), value(ONES))
        until(lambda: self.service.data.used_bytes == ONES.nbytes)
        return held_up

    def chained(self, executable: int, before: LaunchedExecution, **more: Any) -> LaunchedExecution:
        return launch(self.service, executable, argument_of(output(before), **more))


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asynchronous]:
    made = Asynchronous(monkeypatch)
    yield made
    made.service.close()
    assert made.service.engine.close(10)
    assert made.service.engine.memory.used_bytes == 0


def test_an_execution_begins_when_its_arguments_are_launched(platform: Asynchronous) -> None:
    service = platform.service
    first = platform.held_up()
    second = platform.chained(platform.double, first)
    third = platform.chained(platform.double, second)
    # All of them are executed, and count, before the first one ends.
    until(lambda: service.data.used_bytes == 3 * ONES.nbytes)
    for execution in (first, second, third):
        assert not execution.is_done
        assert service.listing.describe(output(execution)).is_pending  # type: ignore[union-attr]
        with pytest.raises(ValuePendingError):
            service.data.get(output(execution))
    platform.gate.set()
    for number, execution in enumerate((first, second, third), 1):
        waited(service, execution)
        np.testing.assert_array_equal(fetched(service, output(execution)), 2**number * ONES)
    service.unregister([output(each) for each in (first, second, third)])
    until(lambda: service.data.used_bytes == 0)


def test_executions_fail_with_the_one_that_launched_their_arguments(
    platform: Asynchronous,
) -> None:
    service = platform.service
    loop = compiled(service, endless())
    first = platform.held_up()
    done = platform.chained(platform.double, first)
    running = platform.chained(loop, done)
    waiting = platform.chained(platform.double, running)
    until(lambda: service.running.used == 3)
    assert service.executions.cancel(first.handle)
    for execution in (first, done, running, waiting):
        with pytest.raises(CancelledError, match=f"^execution {first.handle} of add: [^:]*$"):
            waited(service, execution)
        with pytest.raises(CancelledError, match=f"^execution {first.handle} of add: "):
            service.data.get(output(execution))
    assert (service.data.used_bytes, len(service.data)) == (0, 4)


def test_an_execution_in_line_fails_with_the_one_that_launched_its_arguments(
    platform: Asynchronous,
) -> None:
    service = platform.service
    first = platform.held_up()
    slots = service.running.limit - service.running.used
    for _ in range(slots):
        service.running.acquire()
    waiting = platform.chained(platform.double, first)
    service.executions.cancel(first.handle)
    for _ in range(slots):
        service.running.release()
    with pytest.raises(CancelledError, match=f"^execution {first.handle} of add: [^:]*$"):
        waited(service, waiting)


def test_a_launched_value_is_donated_if_it_has_no_other_user(platform: Asynchronous) -> None:
    service = platform.service
    first = platform.held_up()
    user = platform.chained(platform.double, first)
    donor = platform.chained(platform.double, first, donate=True)
    until(lambda: len(platform.donated) == 3)
    last = platform.chained(platform.double, donor, donate=True)
    until(lambda: len(platform.donated) == 4)
    assert platform.donated[-1] == [0]
    platform.gate.set()
    for execution in (first, user, donor, last):
        waited(service, execution)
    np.testing.assert_array_equal(fetched(service, output(last)), 8 * ONES)
    assert service.data.used_bytes == 2 * ONES.nbytes


def test_a_launched_value_that_is_freed_stays_free(
    platform: Asynchronous,
) -> None:
    service = platform.service
    first = platform.held_up()
    service.unregister([output(first)])
    assert service.data.used_bytes == 0
    platform.gate.set()
    waited(service, first)
    assert (service.data.used_bytes, len(service.data)) == (0, 0)
