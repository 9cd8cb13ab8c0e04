import pytest

from tests.unit.clock import Clock
from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import ADD, DOUBLE, compiled
from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.compile_budget import COMPILE_WINDOW_SECONDS, CompileBudget
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.session import Session


def test_compiling_is_counted_for_an_hour() -> None:
    clock = Clock()
    budget = CompileBudget(10, clock)
    for _ in range(2):
        with budget.spending():
            clock.now += 6
    assert budget.used == 12
    with pytest.raises(ResourceExhaustedError, match=r"for 10 s within an hour.*after 12.0 s"):
        budget.require()
    clock.now += COMPILE_WINDOW_SECONDS - 3
    assert budget.used == 6
    budget.require()


def test_a_session_without_budget_begins_nothing_that_others_could_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = shared_resources(1000, Quotas(device_bytes=1000, compile_seconds=1))
    poor, rich = Session(engine), Session(engine)
    clock = Clock()
    monkeypatch.setattr(poor.compiling, "_clock", clock)
    with poor.compiling.spending():
        clock.now += 2
    compiled(rich, DOUBLE)
    compiled(poor, DOUBLE)
    monkeypatch.setattr(engine.programs, "acquire", None)
    with pytest.raises(ResourceExhaustedError, match="for 1 s within an hour"):
        compiled(poor, ADD)


def test_compiling_that_fails_counts_too() -> None:
    clock = Clock()
    budget = CompileBudget(10, clock)

    def fail() -> None:
        clock.now += 3
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), budget.spending():
        fail()
    assert budget.used == 3


def test_compilations_of_one_second_are_one_sum() -> None:
    clock = Clock()
    budget = CompileBudget(10, clock)
    for _ in range(100):
        with budget.spending():
            clock.now += 1 / 32
    assert budget.used == 100 / 32
    assert len(budget._spent) <= 5
