import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares
from xla_server.sessions.limits.shares.fair_share import FairShare

NOUN = "executions at the same time"


def _fill(shares: FairShare, users: list[int]) -> None:
    """Let all take, in turn, as long as any may."""
    is_taking = True
    while is_taking:
        is_taking = False
        for number, mine in enumerate(users):
            if shares.has_capacity(mine):
                users[number] += 1
                shares.used += 1
                is_taking = True


@pytest.mark.parametrize(("users", "each"), [(1, 50), (3, 25), (9, 10)])
def test_users_that_want_all_have_a_part_each_and_leave_one(users: int, each: int) -> None:
    shares, taken = FairShare(100), [0] * users
    _fill(shares, taken)
    assert taken == [each] * users
    assert shares.has_capacity(0)


def test_who_has_none_gets_one_beyond_the_limit() -> None:
    shares, taken = FairShare(4, reserve=3), [0] * 10
    _fill(shares, taken)
    assert taken == [1] * 7 + [0] * 3
    assert not shares.has_capacity(1)


def _slots(shared: FairShare, limit: int = 100) -> FairSemaphore:
    return FairSemaphore(limit, NOUN, "Wait.", shared)


def test_a_session_cannot_take_the_slots_of_all() -> None:
    shared = FairShare(8, reserve=1)
    greedy, modest = _slots(shared), _slots(shared)
    for _ in range(4):
        greedy.acquire()
    reported = "all sessions may have 8 executions at .* with 4 there, 4 of them this session's"
    with pytest.raises(ResourceExhaustedError, match=reported) as caught:
        greedy.acquire()
    assert caught.value.hint == "Wait."
    modest.acquire()
    modest.release()
    for _ in range(4):
        greedy.release()
    assert (greedy.used, shared.used) == (0, 0)


def test_queued_callers_get_slots_that_others_leave() -> None:
    shared = FairShare(4)
    first, second = _slots(shared), _slots(shared)
    first.acquire()
    first.acquire()
    turns: list[int] = []
    for number in range(3):
        second.acquire_async(lambda number=number: turns.append(number))  # type: ignore[misc]
    assert turns == [0]
    # A slot of the other caller's, and then one of its own.
    first.release()
    assert turns == [0, 1]
    second.release()
    assert turns == [0, 1, 2]
    for slots in (first, second, second):
        slots.release()
    assert (shared.used, second.used, shared.held_up) == (0, 0, {})


def test_a_session_s_own_limit_holds_in_line_too() -> None:
    shared = FairShare(100)
    slots, turns = _slots(shared, limit=1), list[int]()
    for number in range(2):
        slots.acquire_async(lambda number=number: turns.append(number))  # type: ignore[misc]
    assert (turns, shared.held_up) == ([0], {})
    slots.release()
    assert turns == [0, 1]


def test_a_caller_cannot_take_the_slots_of_all_by_sessions() -> None:
    shared = FairShare(8, reserve=8, caller_shares=CallerShares(0.875, 0.75))
    mine, other = Caller("ada", "1"), Caller("eve", "2")
    greedy = [FairSemaphore(100, NOUN, "Wait.", shared, mine) for _ in range(8)]
    for slots in greedy[:6]:
        slots.acquire()
    reported = "a connection may have 0.75 of the 8 executions at .* got 1 more with 6 in use"
    with pytest.raises(ResourceExhaustedError, match=reported) as caught:
        greedy[6].acquire()
    assert caught.value.hint == "Wait."
    turns: list[str] = []
    greedy[7].acquire_async(lambda: turns.append("greedy"))
    modest = FairSemaphore(100, NOUN, "Wait.", shared, other)
    modest.acquire_async(lambda: turns.append("modest"))
    assert turns == ["modest"]
    modest.release()
    assert turns == ["modest"]
    greedy[0].release()
    assert turns == ["modest", "greedy"]


def test_a_connection_that_has_nothing_gets_one_of_the_reserve() -> None:
    shares = CallerShares(identity=0.875, connection=0.75)
    slots, without = (FairShare(64, reserve, shares) for reserve in (8, 0))
    new = Caller("ada", "2")
    for each in (slots, without):
        each.add(Caller("ada", "1"), 56)
    assert without.refusing(new) == ("identity", "ada")
    assert slots.refusing(new) is None
    slots.add(new, 1)
    assert slots.refusing(new) == ("identity", "ada")
    # An identity has its share of the reserve, too.
    slots.add(Caller("ada", "1"), 6)
    assert slots.refusing(Caller("ada", "3")) == ("identity", "ada")
