import pytest

from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares, SharedLimit

SHARES = CallerShares(identity=0.875, connection=0.75)
LIMIT = 64


def _taken(use: SharedLimit, caller: Caller) -> int:
    """Let a caller take one after the other as long as it may; gives how many."""
    before = use.used
    while use.used < LIMIT and use.exceeded(caller, 1) is None:
        use.add(caller, 1)
    return use.used - before


def test_one_caller_leaves_something_for_the_next() -> None:
    use = SharedLimit(LIMIT, SHARES)
    connections = [Caller("ada", str(number)) for number in range(20)]
    assert _taken(use, connections[0]) == 48
    for each in connections[1:]:
        _taken(use, each)
    assert use.used == use.used_by(("identity", "ada")) == 56
    # Of what the other leaves.
    assert _taken(use, Caller("eve", "x")) == 6


def test_a_large_amount_counts_as_so_many() -> None:
    use, caller = SharedLimit(LIMIT, SHARES), Caller("ada", "1")
    assert use.exceeded(caller, 49) == ("connection", "1")
    assert use.exceeded(Caller("ada"), 56) is None
    assert use.exceeded(Caller("ada"), 57) == ("identity", "ada")


def test_a_share_is_at_least_one_and_everything_is_no_limit() -> None:
    assert SharedLimit(1, SHARES).exceeded(Caller("ada", "1"), 1) is None
    assert SharedLimit(LIMIT, EVERYTHING).exceeded(Caller("ada", "1"), LIMIT) is None


def test_what_is_given_back_is_forgotten() -> None:
    use, caller = SharedLimit(LIMIT, SHARES), Caller("ada", "1")
    use.add(caller, 3)
    use.add(caller, -3)
    assert (use.used, use._used) == (0, {})


def test_what_no_caller_uses_counts_in_total_alone() -> None:
    use, caller = SharedLimit(LIMIT, SHARES), Caller("ada", "1")
    use.add(None, 32)
    assert (use.used, use.used_by(("identity", "ada"))) == (32, 0)
    assert use.exceeded(caller, 24) is None
    assert use.exceeded(caller, 25) == ("connection", "1")
    assert use.exceeded(caller, 25, beyond=2) is None


def test_a_refusal_has_the_rule_and_the_use() -> None:
    use, caller = SharedLimit(LIMIT, SHARES), Caller("ada", "1")
    use.add(caller, 40)
    use.add(None, 10)
    level = use.exceeded(caller, 3)
    assert level == ("connection", "1")
    error = use.refusal(level, 3, "places", "Wait.")
    assert error.message == (
        "a connection may have 0.75 of the 64 places less those of others, which is 40 now, got 3 "
        "more with 40 in use and 10 of others"
    )
    assert error.hint == "Wait."
    assert "ada" not in error.message


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_caller_without_connection_is_counted_by_its_identity_alone(share: float) -> None:
    use = SharedLimit(LIMIT, CallerShares(identity=1.0, connection=share))
    assert use.exceeded(Caller("ada"), LIMIT) is None
