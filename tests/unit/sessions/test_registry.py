import numpy as np
import pytest

from xla_contract.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnauthenticatedError,
)
from xla_contract.literal import Literal
from xla_contract.literal_decoding import ReceivedLiteral
from xla_server.backends.interpreter import Interpreter
from xla_server.evaluator.cancellation import Cancellation
from xla_server.sessions.engine import Engine
from xla_server.sessions.records import Limits
from xla_server.sessions.registry import SessionRegistry


def _received(value: object) -> ReceivedLiteral:
    return ReceivedLiteral(Literal.from_numpy(value))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> SessionRegistry:
    engine = Engine(Interpreter(), Limits(max_device_bytes=1000, max_sessions=3))
    return SessionRegistry(engine, grace_seconds=10, clock=clock)


def gone(_: str) -> bool:
    return False


def there(_: str) -> bool:
    return True


def test_a_call_has_the_session_of_its_token_or_else_of_its_connection(
    sessions: SessionRegistry,
) -> None:
    opened = sessions.open()
    with sessions.using(opened.token, "ipv4:1") as found:
        assert found is opened
    with sessions.using(None, "ipv4:1") as mine, sessions.using(None, "ipv4:2") as other:
        assert len({id(mine), id(other), id(opened)}) == 3
    with sessions.using(None, "ipv4:1") as again:
        assert again is mine
    assert sessions.of(mine.service) is mine


def test_it_is_known_which_tokens_are_of_live_sessions(sessions: SessionRegistry) -> None:
    opened = sessions.open()
    assert sessions.has(opened.token)
    assert not sessions.has("t" * 43)
    with sessions.using(None, "ipv4:1"):
        assert not sessions.has("ipv4:1")
    sessions.close(opened)
    assert not sessions.has(opened.token)


def test_a_token_of_no_session_is_refused(sessions: SessionRegistry) -> None:
    with pytest.raises(UnauthenticatedError, match="must be the token"), sessions.using("x", "y"):
        pass
    token = sessions.open().token
    other = token[:-1] + ("A" if token[-1] != "A" else "B")
    with pytest.raises(NotFoundError, match="must be that of a live session") as caught:
        sessions.open(other)
    assert "for 10 s after" in caught.value.hint
    assert other not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("malformed", ["x", "x" * 42, "x" * 44, "x" * 42 + "!", "x" * 42 + "ß"])
def test_what_cannot_be_a_token_is_told_without_repeating_it(
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
    for call in (other.get_shape, lambda handle: other.unregister([handle])):
        with pytest.raises(NotFoundError, match="of this session"):
            call(handle)
    assert mine.get_shape(handle)


def test_a_session_ends_when_nobody_used_it_for_the_grace_period(
    sessions: SessionRegistry, clock: Clock
) -> None:
    session = sessions.open()
    session.service.transfer_to_server(_received(np.zeros(10, np.float32)), None)
    clock.now += 9
    assert sessions.expire(gone) == 0
    assert sessions.open(session.token) is session
    clock.now += 9
    assert sessions.expire(gone) == 0
    with sessions.using(session.token, ""):
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
        sessions.keep(session, "ipv4:1")
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
    with sessions.using(None, "ipv4:1") as session:
        sessions.keep(session, "ipv4:2")
    clock.now += 10
    assert sessions.expire(lambda peer: peer == "ipv4:2") == 1


def test_a_default_session_stays_as_long_as_its_connection(
    sessions: SessionRegistry, clock: Clock
) -> None:
    with sessions.using(None, "ipv4:1") as session:
        pass
    clock.now += 100
    assert sessions.expire(there) == 0
    clock.now += 9
    assert sessions.expire(gone) == 0
    clock.now += 1
    assert sessions.expire(gone) == 1
    assert session.service.is_closed


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
        sessions.using(None, "ipv4:1") as session,
        pytest.raises(FailedPreconditionError, match="ends with it"),
    ):
        sessions.close(session)


def test_there_are_at_most_so_many(sessions: SessionRegistry) -> None:
    sessions.open()
    sessions.open()
    with sessions.using(None, "ipv4:1"):
        pass
    for call in (sessions.open, lambda: sessions.enter(None, "ipv4:2")):
        with pytest.raises(ResourceExhaustedError, match=r"at most 3 sessions.*with 3 there"):
            call()


def test_parts_are_made_once_and_closed_with_the_session(sessions: SessionRegistry) -> None:
    class Part:
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    session = sessions.open()
    part = session.service.part(Part, lambda service: Part())
    assert session.service.part(Part, lambda service: Part()) is part
    sessions.close_all()
    assert part.is_closed
    assert len(sessions) == 0


def test_use_is_told(sessions: SessionRegistry) -> None:
    service = sessions.open().service
    service.transfer_to_server(_received(np.zeros(10, np.float32)), None)
    fed: list[object] = []
    item = _received(np.zeros(3, np.float32))
    service.transfer_to_infeed(item, 0, None, Cancellation(), fed.append)
    assert fed == [None]
    use = service.use()
    assert (use.device_bytes, use.handles) == (40, 1)
    assert (use.queued_items, use.queued_bytes) == (1, 12)
