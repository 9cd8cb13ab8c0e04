from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from xla_server.sessions.limits.shares.caller import Flow
from xla_server.sessions.limits.shares.processor_shares import ProcessorShares


class Item(NamedTuple):
    flow: Flow
    rank: float = 0


def _select(shares: ProcessorShares, items: list[Item], count: int) -> list[Item]:
    """Select items, each of which takes one second."""
    shares.keep({item.flow for item in items})
    selected = shares.select(items, count, lambda item: item.flow, lambda item: item.rank, 1.0)
    for item in selected:
        shares.charge(item.flow, 1.0)
    return selected


def test_identities_are_served_in_turn_whatever_number_of_items_they_have() -> None:
    shares = ProcessorShares()
    greedy = [Item(Flow("greedy", "1", "a"), rank) for rank in range(5)]
    modest = [Item(Flow("modest", "2", "b"))]
    served = [_select(shares, [*greedy, *modest], 1)[0].flow.identity for _ in range(6)]
    assert served in (["greedy", "modest"] * 3, ["modest", "greedy"] * 3)


def test_connections_of_an_identity_share_its_turns_and_sessions_those_of_a_connection() -> None:
    shares = ProcessorShares()
    items = [
        Item(Flow("ada", "1", "a")),
        Item(Flow("ada", "1", "b")),
        Item(Flow("ada", "2", "c")),
        Item(Flow("eve", "3", "d")),
    ]
    served = [_select(shares, items, 1)[0].flow.session for _ in range(8)]
    assert sorted(served) == ["a", "b", "c", "c", "d", "d", "d", "d"]


def test_of_a_session_the_lowest_ranks_are_first_and_nothing_is_left_idle() -> None:
    flow, other = Flow("ada", "1", "a"), Flow("eve", "2", "b")
    items = [Item(flow, 3), Item(flow, 1), Item(flow, 2), Item(other, 9)]
    assert {item.rank for item in _select(ProcessorShares(), items, 3)} == {1, 2, 9}
    assert _select(ProcessorShares(), items, 0) == []
    assert len(_select(ProcessorShares(), items, 9)) == 4


def test_what_has_gone_is_owed_nothing_and_forgotten_once_others_have_as_much() -> None:
    shares, (ada, eve) = ProcessorShares(), (Flow("ada", "1", "a"), Flow("eve", "2", "b"))
    for flows in ({ada}, {ada, eve}, {ada}, {ada, eve}):
        shares.keep(flows)
        shares.charge(ada, 5.0)
    shares.keep([eve, ada])
    assert shares.lead(ada) == 5.0
    assert shares.lead(eve) == 0.0
    for _ in range(2):
        shares.keep([eve])
        assert ("ada",) in shares._seconds
        shares.charge(eve, 2.0)
    shares.keep([eve, ada])
    assert shares.lead(ada) == 1.0
    shares.charge(eve, 1.0)
    shares.keep([eve])
    assert set(shares._seconds) == {("eve",), ("eve", "2"), ("eve", "2", "b")}


_NAMES = st.sampled_from("abcd")


@given(
    flows=st.lists(st.builds(Flow, _NAMES, _NAMES, _NAMES), min_size=1, max_size=30),
    count=st.integers(1, 4),
)
def test_each_identity_has_the_same_turns_while_all_want_more_than_there_is(
    flows: list[Flow], count: int
) -> None:
    """After any number of rounds the seconds of two identities differ by one at most."""
    shares = ProcessorShares()
    names = sorted({flow.identity for flow in flows})
    turns = dict.fromkeys(names, 0)
    # No identity has fewer items than can be selected at once.
    items = [Item(flow) for flow in flows for _ in range(count)]
    for _ in range(2 * len(names)):
        selected = _select(shares, items, min(count, len(names)))
        for item in selected:
            turns[item.flow.identity] += 1
        assert max(turns.values()) - min(turns.values()) <= 1
