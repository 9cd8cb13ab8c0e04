import numpy as np
import pytest

from tests.unit.clock import Clock
from tests.unit.sessions.engines import shared_resources
from xla_contract.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnauthenticatedError,
)
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.decoding import UndecodedLiteral
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares
from xla_server.sessions.session_registry import (
    IDLE_SECONDS,
    SessionEntry,
    SessionRegistry,
)


def _received(value: object) -> UndecodedLiteral:
    return UndecodedLiteral(Literal.from_numpy(value))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> SessionRegistry:
    engine = shared_resources(1000, max_sessions=3)
    return SessionRegistry(engine, grace_seconds=10, clock=clock)


def gone(_: str) -> bool:
    return False


def there(_: str) -> bool:
    return True


def over(connection: str) -> Caller:
    return Caller("ipv4:127.0.0.1", connection)


def named(identity: str, connection: str = "") -> Caller:
    return Caller(identity, connection, is_authenticated=True)


def test_a_call_has_the_session_of_its_token_or_else_of_its_connection(
    sessions: SessionRegistry,
) -> None:
    opened = sessions.open()
    with sessions.using(opened.token, over("1")) as found:
        assert found is opened
    with sessions.using(None, over("1")) as mine, sessions.using(None, over("2")) as other:
        assert len({id(mine), id(other), id(opened)}) == 3
    with sessions.using(None, over("1")) as again:
        assert again is mine
    assert sessions.of(mine.service) is mine


def test_it_is_known_whose_resources_a_token_uses(sessions: SessionRegistry) -> None:
    opened = sessions.open(caller=named("ada", "4"))
    assert sessions.account_of(opened.token) == named("ada", "4")
    assert sessions.account_of("t" * 43) is None
    with sessions.using(None, over("1")):
        assert sessions.account_of("1") is None
    sessions.close(opened)
    assert sessions.account_of(opened.token) is None


def test_a_token_of_no_session_is_refused(sessions: SessionRegistry) -> None:
    with (
        pytest.raises(UnauthenticatedError, match="must be the token"),
        sessions.using("x", over("1")),
    ):
        pass
    token = sessions.open().token
    other = token[:-1] + ("A" if token[-1] != "A" else "B")
    with pytest.raises(NotFoundError, match="must be that of a live session") as caught:
        sessions.open(other)
    assert "for 10 s after" in caught.value.hint
    assert other not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("malformed", ["x", "x" * 42, "x" * 44, "x" * 42 + "!", "x" * 42 + "ß"])
def test_what_cannot_be_a_token_is_reported_without_repeating_it(
    sessions: SessionRegistry, malformed: str
) -> None:
    rule = f"must be 43 characters .*got {len(malformed)} characters"
    with pytest.raises(InvalidArgumentError, match=rule) as caught:
        sessions.open(malformed)
    assert len(malformed) < 42 or malformed not in str(caught.value)


def test_tokens_cannot_be_guessed(sessions: SessionRegistry) -> None:
    first, second = sessions.open().token, sessions.open().token
    assert first != second
    assert len(first) >= 43


def test_handles_of_another_session_are_not_found(sessions: SessionRegistry) -> None:
    mine, other = sessions.open().service, sessions.open().service
    handle = mine.transfer_to_server(_received(np.float32(1)), None)
    for call in (other.data.shape, lambda handle: other.unregister([handle])):
        with pytest.raises(NotFoundError, match="of this session"):
            call(handle)
    assert mine.data.shape(handle)


def test_a_session_ends_when_it_was_unused_for_the_grace_period(
    sessions: SessionRegistry, clock: Clock
) -> None:
    session = sessions.open()
    session.service.transfer_to_server(_received(np.zeros(10, np.float32)), None)
    clock.now += 9
    assert sessions.expire(gone) == 0
    assert sessions.open(session.token) is session
    clock.now += 9
    assert sessions.expire(gone) == 0
    with sessions.using(session.token, None):
        clock.now += 20
        assert sessions.expire(gone) == 0
    clock.now += 9
    assert sessions.expire(gone) == 0
    assert sessions.engine.memory.used_bytes == 40
    clock.now += 1
    assert sessions.expire(gone) == 1
    assert sessions.engine.memory.used_bytes == 0
    with pytest.raises(NotFoundError):
        sessions.open(session.token)


def test_an_attached_session_stays(sessions: SessionRegistry, clock: Clock) -> None:
    session = sessions.open()
    with sessions.attached(session):
        clock.now += 100
        assert sessions.expire(gone) == 0
    clock.now += 11
    assert sessions.expire(gone) == 1


def test_a_session_whose_stream_the_server_ended_stays_as_long_as_its_connection(
    sessions: SessionRegistry, clock: Clock
) -> None:
    session = sessions.open()
    with sessions.attached(session):
        sessions.keep(session, "1")
    clock.now += 100
    assert sessions.expire(there) == 0
    clock.now += 9
    assert sessions.expire(gone) == 0
    # It is there by a stream again, and by nothing else.
    with sessions.attached(session):
        pass
    clock.now += 9
    assert sessions.expire(there) == 0
    clock.now += 1
    assert sessions.expire(there) == 1


def test_a_default_session_is_kept_by_its_own_connection(
    sessions: SessionRegistry, clock: Clock
) -> None:
    with sessions.using(None, over("1")) as session:
        sessions.keep(session, "2")
    assert sessions.expire(lambda name: name == "2") == 1


def test_a_default_session_stays_as_long_as_its_connection(
    sessions: SessionRegistry, clock: Clock
) -> None:
    with sessions.using(None, over("1")) as session:
        pass
        clock.now += 100
        assert sessions.expire(gone) == 0
    assert sessions.expire(there) == 0
    assert sessions.expire(gone) == 1
    assert session.service.is_closed
    with sessions.using(None, over("1")) as again:
        assert again is not session


def test_a_connection_that_came_after_the_look_at_them_is_not_taken_for_gone(
    sessions: SessionRegistry,
) -> None:
    with sessions.using(None, over("1")):
        pass

    def is_connected(name: str) -> bool:
        with sessions.using(None, over("2")):
            return name != "2"

    assert sessions.expire(is_connected) == 0
    assert len(sessions) == 2


def test_a_call_without_token_is_refused_where_its_connection_cannot_be_identified(
    sessions: SessionRegistry,
) -> None:
    with pytest.raises(UnauthenticatedError, match="tell from all others") as caught:
        sessions.enter(None, over(""))
    assert "OpenSession" in caught.value.hint
    with sessions.using(None, over(""), is_stateless=True) as one:
        assert one.service.devices.handles(1)
        assert len(sessions) == 0
    assert one.service.is_closed


def test_a_session_is_of_the_identity_that_opened_it(sessions: SessionRegistry) -> None:
    mine = sessions.open(caller=named("ada"))
    assert sessions.open(mine.token, named("ada", "5")) is mine
    with sessions.using(mine.token, named("ada", "6")) as found:
        assert found is mine
    for other in (named("eve"), over("1")):
        # In the words for a token that never was.
        for code, call in (
            (UnauthenticatedError, lambda token, other=other: sessions.enter(token, other)),
            (NotFoundError, lambda token, other=other: sessions.open(token, other)),
        ):
            reported = []
            for token in (mine.token, "x" * 43):
                with pytest.raises(code) as caught:
                    call(token)
                reported.append((str(caught.value), caught.value.hint))
            assert reported[0] == reported[1]


def test_a_session_without_an_identity_goes_with_its_token_alone(
    sessions: SessionRegistry,
) -> None:
    session = sessions.open(caller=over("1"))
    elsewhere = Caller("ipv4:10.0.0.1", "2")
    assert sessions.open(session.token, elsewhere) is session
    with sessions.using(session.token, elsewhere) as found:
        assert found is session


def test_a_connection_of_several_identities_has_the_session_of_the_first(
    sessions: SessionRegistry,
) -> None:
    with (
        sessions.using(None, named("ada", "1")),
        pytest.raises(UnauthenticatedError, match="identity of the first"),
    ):
        sessions.enter(None, named("eve", "1"))


def test_closing_cancels_what_runs(sessions: SessionRegistry) -> None:
    session = sessions.open()
    cancellation = Cancellation()
    with session.service.calling(cancellation):
        sessions.close(session)
    with pytest.raises(CancelledError, match="was closed"):
        cancellation.check()
    with (
        pytest.raises(UnauthenticatedError, match="has ended"),
        session.service.calling(Cancellation()),
    ):
        pass


def test_a_default_session_cannot_be_closed(sessions: SessionRegistry) -> None:
    with (
        sessions.using(None, over("1")) as session,
        pytest.raises(FailedPreconditionError, match="ends with it"),
    ):
        sessions.close(session)


def test_there_are_at_most_so_many(sessions: SessionRegistry) -> None:
    for _ in range(2):
        _filled(sessions.open())
    with sessions.using(None, over("1")):
        pass
    for call in (sessions.open, lambda: sessions.enter(None, over("2"))):
        with pytest.raises(ResourceExhaustedError, match=r"at most 3 sessions.*with 3 there"):
            call()


def _filled(session: SessionEntry) -> SessionEntry:
    session.service.transfer_to_server(_received(np.float32(1)), None)
    return session


def test_idle_sessions_are_evicted_for_new_ones(sessions: SessionRegistry, clock: Clock) -> None:
    kept = _filled(sessions.open())
    older = sessions.open()
    clock.now += 1
    newer = sessions.open()
    assert len(sessions) == 3
    clock.now += IDLE_SECONDS
    with sessions.using(older.token, None):
        another = sessions.open()
        assert newer.service.is_closed
        clock.now += IDLE_SECONDS
        with sessions.attached(another), pytest.raises(ResourceExhaustedError, match="at most 3"):
            sessions.open()
    assert not older.service.is_closed
    assert not kept.service.is_closed
    clock.now += IDLE_SECONDS
    assert sessions.open()
    assert [older.service.is_closed, another.service.is_closed] == [True, False]


def test_a_session_that_was_just_opened_or_used_is_not_evicted(
    sessions: SessionRegistry, clock: Clock
) -> None:
    opened, used, another = (sessions.open() for _ in range(3))
    clock.now += IDLE_SECONDS - 1
    with sessions.using(used.token, None):
        pass
    with pytest.raises(ResourceExhaustedError, match="at most 3") as caught:
        sessions.open()
    assert "unused for 10 s" in caught.value.hint
    clock.now += 1
    for _ in range(2):
        sessions.open()
    with pytest.raises(ResourceExhaustedError, match="at most 3"):
        sessions.open()
    closed = [each.service.is_closed for each in (opened, used, another)]
    assert closed == [True, False, True]


def test_a_caller_cannot_take_the_sessions_of_all(clock: Clock) -> None:
    engine = shared_resources(1000, max_sessions=16, shares=CallerShares(0.875, 0.75))
    sessions = SessionRegistry(engine, clock=clock)
    ada = [named("ada", str(number)) for number in range(3)]
    held = [_filled(sessions.open(caller=ada[0])) for _ in range(12)]
    with pytest.raises(ResourceExhaustedError, match=r"a connection may have 0.75 of the 16 sess"):
        sessions.open(caller=ada[0])
    held.append(_filled(sessions.open(caller=ada[1])))
    idle = sessions.open(caller=ada[2])
    # What is attached is not idle.
    with (
        sessions.attached(idle),
        pytest.raises(ResourceExhaustedError, match=r"an identity may have 0.875 .*14 in use"),
    ):
        sessions.open(caller=ada[1])
    assert sessions.open(caller=named("eve", "9"))
    clock.now += IDLE_SECONDS
    # The caller's own idle session is evicted, not another caller's.
    assert sessions.open(caller=ada[1])
    assert idle.service.is_closed
    assert len(sessions) == 15
    # A session over an unknown connection shares with no other.
    names = set()
    for _ in range(2):
        names.add(sessions.open(caller=Caller("local")).service.caller.connection)
        clock.now += IDLE_SECONDS
    assert len(names) == 2


def test_the_idle_sessions_of_the_largest_holder_end_first(
    sessions: SessionRegistry, clock: Clock
) -> None:
    modest = sessions.open(caller=named("ada", "1"))
    greedy = [sessions.open(caller=named("eve", "2")) for _ in range(2)]
    clock.now += IDLE_SECONDS
    sessions.open(caller=named("eve", "2"))
    assert greedy[0].service.is_closed
    assert not modest.service.is_closed


def test_a_session_that_was_never_used_goes_with_the_connection_that_opened_it(
    sessions: SessionRegistry,
) -> None:
    unused, used, resumed = (sessions.open(caller=over("1")) for _ in range(3))
    with sessions.using(used.token, over("1")):
        pass
    sessions.open(resumed.token, over("2"))
    assert sessions.expire(there) == 0
    assert sessions.expire(gone) == 1
    assert [each.service.is_closed for each in (unused, used, resumed)] == [True, False, False]


def test_use_is_reported(sessions: SessionRegistry) -> None:
    service = sessions.open().service
    service.transfer_to_server(_received(np.zeros(10, np.float32)), None)
    fed: list[object] = []
    item = _received(np.zeros(3, np.float32))
    service.transfer_to_infeed(item, 0, None, Cancellation(), fed.append)
    assert fed == [None]
    use = service.use()
    assert (use.device_bytes, use.handles) == (40, 1)
    assert (use.queued_items, use.queued_bytes) == (1, 12)
