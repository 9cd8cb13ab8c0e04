import contextlib
import threading

import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_server.rpc.limits.concurrency_limit import ConcurrencyLimit, ConcurrencyLimits
from xla_server.sessions.limits.shares.caller import LOCAL_FLOW, Caller, Flow
from xla_server.sessions.limits.shares.caller_shares import CallerShares


def test_one_client_cannot_take_the_slots_of_all() -> None:
    places = ConcurrencyLimit(ConcurrencyLimits(limit=6, each=2, reserve=1), "streams", "End some.")
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(places.taken("greedy"))
        told = "may have 2 streams .* all sessions 6, .* got one more with 2 of the session's and 2"
        with (
            pytest.raises(ResourceExhaustedError, match=told) as refused,
            places.taken("greedy"),
        ):
            pass
        assert refused.value.hint == "End some."
        for name in ("a", "a", "b", "c"):
            stack.enter_context(places.taken(name))
        stack.enter_context(places.taken("has none"))
        with pytest.raises(ResourceExhaustedError), places.taken("beyond the reserve"):
            pass
        assert places.shares.used == 7
        assert places._used.get("a", 0) == 2
    assert places.shares.used == 0
    assert not places._used
    assert not places._owners


def test_a_slot_is_released_once() -> None:
    places = ConcurrencyLimit(ConcurrencyLimits(limit=4, each=2), "calls", "")
    first, second = object(), object()
    places.enter(first, "a")
    places.enter(second, "a")
    for _ in range(3):
        places.leave(first)
    places.leave(object())
    places.leave(None)
    assert (places.shares.used, places._used.get("a", 0)) == (1, 1)
    places.leave(second)
    assert not places._used


def test_slots_are_counted_whichever_threads_come_and_go() -> None:
    places = ConcurrencyLimit(ConcurrencyLimits(limit=1000, each=100), "calls", "")
    ends = []

    def come_and_go(owner: str) -> None:
        for _ in range(2000):
            key = object()
            places.enter(key, owner)
            leaving = [threading.Thread(target=places.leave, args=(key,))] if not _ % 500 else []
            for thread in leaving:
                thread.start()
            places.leave(key)
            for thread in leaving:
                thread.join()
        ends.append(owner)

    threads = [threading.Thread(target=come_and_go, args=(owner,)) for owner in "aabb"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 4
    assert places.shares.used == 0
    assert not places._used


def test_a_caller_cannot_take_all_slots_by_many_sessions() -> None:
    limits = ConcurrencyLimits(8, 4, 8, CallerShares(0.875, 0.75))
    places = ConcurrencyLimit(limits, "calls", "Wait.")
    mine = Caller("ada", "1")
    for number in range(6):
        places.enter(number, f"session {number}", mine)
    assert places.flow_of(5) == Flow("ada", "1", "session 5")
    told = "a connection may have 0.75 of the 8 calls .* got 1 more with 6 in use"
    with pytest.raises(ResourceExhaustedError, match=told) as refused:
        places.enter(6, "session 6", mine)
    assert refused.value.hint == "Wait."
    places.enter(6, "another's", Caller("eve", "2"))
    for number in range(7):
        places.leave(number)
    assert places.shares.used == 0
    assert places.shares._callers._used == {}
    assert places.flow_of(5) == LOCAL_FLOW
