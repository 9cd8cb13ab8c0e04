import pytest

from tests.unit.clock import Clock
from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits import compile_share
from xla_server.sessions.limits.compile_share import CompileShare
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    budget = compile_share.CompileBudget
    monkeypatch.setattr(compile_share, "CompileBudget", lambda limit: budget(limit, made))
    return made


def _spend(share: CompileShare, clock: Clock, caller: Caller, seconds: float) -> None:
    with share.spending(caller):
        clock.now += seconds


def test_a_caller_may_compile_for_its_share_within_an_hour(clock: Clock) -> None:
    share = CompileShare(800, CallerShares(0.875, 0.75))
    first, second = Caller("ada", "1"), Caller("ada", "2")
    _spend(share, clock, first, 600)
    reported = (
        "one connection may compile for 600 of the 800 s .* got another program after 600.0 s"
    )
    with pytest.raises(ResourceExhaustedError, match=reported):
        share.require(first)
    share.require(second)
    _spend(share, clock, second, 100)
    with pytest.raises(ResourceExhaustedError, match="one identity may compile for 700 of the 800"):
        share.require(second)
    share.require(Caller("eve", "3"))
    clock.now += 3600
    share.require(first)


def test_who_compiled_nothing_lately_is_forgotten(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_share, "_MANY", 4)
    share = CompileShare(800, CallerShares())
    for number in range(10):
        _spend(share, clock, Caller(f"host {number}", str(number)), 1)
        clock.now += 3600
    assert len(share._budgets) <= 6
