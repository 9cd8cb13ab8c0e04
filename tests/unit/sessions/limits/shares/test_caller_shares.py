import pytest

from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares, CallerUse

SHARES = CallerShares(identity=0.875, connection=0.75)
LIMIT = 64


def _taken(use: CallerUse, caller: Caller, used: int) -> int:
    """Let a caller take one after the other as long as it may; gives how many."""
    count = 0
    while used + count < LIMIT and use.exceeded(caller, 1, used + count, LIMIT) is None:
        use.add(caller, 1)
        count += 1
    return count


def test_one_caller_leaves_something_for_the_next() -> None:
    use = CallerUse(SHARES)
    connections = [Caller("ada", str(number)) for number in range(20)]
    used = _taken(use, connections[0], 0)
    assert used == 48
    for each in connections[1:]:
        used += _taken(use, each, used)
    assert used == use.used_by(("identity", "ada")) == 56
    # Of what the other leaves.
    assert _taken(use, Caller("eve", "x"), used) == 6


def test_a_large_amount_counts_as_so_many() -> None:
    use, caller = CallerUse(SHARES), Caller("ada", "1")
    assert use.exceeded(caller, 49, 0, LIMIT) == ("connection", "1")
    assert use.exceeded(Caller("ada"), 56, 0, LIMIT) is None
    assert use.exceeded(Caller("ada"), 57, 0, LIMIT) == ("identity", "ada")


def test_a_share_is_at_least_one_and_everything_is_no_limit() -> None:
    assert CallerUse(SHARES).exceeded(Caller("ada", "1"), 1, 0, 1) is None
    assert CallerUse(EVERYTHING).exceeded(Caller("ada", "1"), LIMIT, 0, LIMIT) is None


def test_what_is_given_back_is_forgotten() -> None:
    use, caller = CallerUse(SHARES), Caller("ada", "1")
    use.add(caller, 3)
    use.add(caller, -3)
    assert use._used == {}


def test_a_refusal_has_the_rule_and_the_use() -> None:
    use, caller = CallerUse(SHARES), Caller("ada", "1")
    use.add(caller, 40)
    level = use.exceeded(caller, 3, 50, LIMIT)
    assert level == ("connection", "1")
    error = use.refusal(level, 3, 50, LIMIT, "places", "Wait.")
    assert error.message == (
        "a connection may have 0.75 of the 64 places less those of others, which is 40 now, got 3 "
        "more with 40 in use and 10 of others"
    )
    assert error.hint == "Wait."
    assert "ada" not in error.message


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_caller_without_connection_is_counted_by_its_identity_alone(share: float) -> None:
    use = CallerUse(CallerShares(identity=1.0, connection=share))
    assert use.exceeded(Caller("ada"), LIMIT, 0, LIMIT) is None


def test_a_connection_that_has_nothing_gets_one_of_the_reserve() -> None:
    use = CallerUse(SHARES)
    use.add(Caller("ada", "1"), 56)
    new = Caller("ada", "2")
    assert use.exceeded(new, 1, 56, LIMIT) == ("identity", "ada")
    assert use.exceeded(new, 1, 56, LIMIT, reserve=8) is None
    use.add(new, 1)
    assert use.exceeded(new, 1, 57, LIMIT, reserve=8) == ("identity", "ada")
    # An identity has its share of the reserve, too.
    use.add(Caller("ada", "1"), 6)
    assert use.exceeded(Caller("ada", "3"), 1, 63, LIMIT, reserve=8) == ("identity", "ada")
