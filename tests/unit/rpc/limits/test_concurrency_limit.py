import contextlib
import threading

import pytest

from tests.in_threads import in_threads
from xla_contract.errors import ResourceExhaustedError
from xla_server.rpc.limits.concurrency_limit import ConcurrencyLimit, ConcurrencyLimits
from xla_server.sessions.limits.shares.caller import LOCAL_FLOW, Caller, Flow
from xla_server.sessions.limits.shares.caller_shares import CallerShares


def test_one_client_cannot_take_the_slots_of_all() -> None:
    limit = ConcurrencyLimit(ConcurrencyLimits(limit=6, each=2, reserve=1), "streams", "End some.")
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(limit.acquired("greedy"))
        reported = (
            "may have 2 streams .* all sessions 6, .* got one more with 2 of the session's and 2"
        )
        with (
            pytest.raises(ResourceExhaustedError, match=reported) as refused,
            limit.acquired("greedy"),
        ):
            pass
        assert refused.value.hint == "End some."
        for name in ("a", "a", "b", "c"):
            stack.enter_context(limit.acquired(name))
        stack.enter_context(limit.acquired("has none"))
        with pytest.raises(ResourceExhaustedError), limit.acquired("beyond the reserve"):
            pass
        assert limit.shares.used == 7
        assert limit._used.get("a", 0) == 2
    assert limit.shares.used == 0
    assert not limit._used
    assert not limit._owners


def test_a_slot_is_released_once() -> None:
    limit = ConcurrencyLimit(ConcurrencyLimits(limit=4, each=2), "calls", "")
    first, second = object(), object()
    limit.enter(first, "a")
    limit.enter(second, "a")
    for _ in range(3):
        limit.leave(first)
    limit.leave(object())
    limit.leave(None)
    assert (limit.shares.used, limit._used.get("a", 0)) == (1, 1)
    limit.leave(second)
    assert not limit._used


def test_slots_are_counted_whichever_threads_come_and_go() -> None:
    limit = ConcurrencyLimit(ConcurrencyLimits(limit=1000, each=100), "calls", "")

    def come_and_go(owner: str) -> None:
        for _ in range(2000):
            key = object()
            limit.enter(key, owner)
            leaving = [threading.Thread(target=limit.leave, args=(key,))] if not _ % 500 else []
            for thread in leaving:
                thread.start()
            limit.leave(key)
            for thread in leaving:
                thread.join()

    in_threads(come_and_go, "aabb")
    assert limit.shares.used == 0
    assert not limit._used


def test_a_caller_cannot_take_all_slots_by_many_sessions() -> None:
    limits = ConcurrencyLimits(8, 4, 8, CallerShares(0.875, 0.75))
    limit = ConcurrencyLimit(limits, "calls", "Wait.")
    mine = Caller("ada", "1")
    for number in range(6):
        limit.enter(number, f"session {number}", mine)
    assert limit.flow_of(5) == Flow("ada", "1", "session 5")
    reported = "a connection may have 0.75 of the 8 calls .* got 1 more with 6 in use"
    with pytest.raises(ResourceExhaustedError, match=reported) as refused:
        limit.enter(6, "session 6", mine)
    assert refused.value.hint == "Wait."
    limit.enter(6, "another's", Caller("eve", "2"))
    for number in range(7):
        limit.leave(number)
    assert limit.shares.used == 0
    assert limit.shares._used == {}
    assert limit.flow_of(5) == LOCAL_FLOW
