"""The bytes of answers that were not read, against their limits."""

import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.response_memory import (
    ResponseMemory,
    ResponseReservation,
    SessionResponseMemory,
)
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares

LIMIT = 100
MESSAGE = 300


@pytest.fixture
def memory() -> ResponseMemory:
    return ResponseMemory(1000)


@pytest.fixture
def answers(memory: ResponseMemory) -> SessionResponseMemory:
    return SessionResponseMemory(memory, max_bytes=LIMIT, max_answer_bytes=MESSAGE)


def test_what_was_not_read_is_counted_until_it_is(
    memory: ResponseMemory, answers: SessionResponseMemory
) -> None:
    reservations = [answers.reserve(40), answers.reserve(60)]
    assert (answers.used_bytes, memory.used) == (100, 100)
    reported = "of a session .* may take 100 bytes, got 1 bytes more with 100 there"
    with pytest.raises(ResourceExhaustedError, match=reported) as caught:
        answers.reserve(1)
    assert "Read the answers" in caught.value.hint
    for reservation in reservations:
        reservation.release()
        reservation.release()
        reservation.resize(7)
    assert (answers.used_bytes, memory.used) == (0, 0)
    answers.reserve(100)


def test_one_answer_has_memory_however_large(answers: SessionResponseMemory) -> None:
    # More than a message may take is known to be too much.
    reservation = answers.reserve(10 * MESSAGE)
    assert answers.used_bytes == MESSAGE
    with pytest.raises(ResourceExhaustedError, match="300 there"):
        answers.reserve(1)
    reservation.release()


def test_an_answer_grows_as_one(memory: ResponseMemory, answers: SessionResponseMemory) -> None:
    reservation = ResponseReservation(answers)
    for _ in range(3):
        reservation.grow(LIMIT)
    with pytest.raises(ResourceExhaustedError):
        reservation.grow(1)
    assert reservation.byte_size == MESSAGE
    reservation.resize(20)
    beside = answers.reserve(60)
    with pytest.raises(ResourceExhaustedError, match="got 21 bytes more with 80 there"):
        reservation.grow(21)
    reservation.grow(20)
    assert (answers.used_bytes, memory.used) == (100, 100)
    reservation.release()
    beside.release()
    assert (answers.used_bytes, memory.used) == (0, 0)


def test_what_describes_values_is_counted_without_a_limit(answers: SessionResponseMemory) -> None:
    reservation = answers.reserve(LIMIT)
    reservation.resize(LIMIT + 3)
    assert answers.used_bytes == LIMIT + 3
    reservation.release()
    assert answers.used_bytes == 0


def test_an_answer_that_was_made_may_go_beyond_the_limit_by_as_much_again(
    memory: ResponseMemory, answers: SessionResponseMemory
) -> None:
    reservations = [answers.reserve(LIMIT), answers.reserve(LIMIT - 20, is_made=True)]
    reservations[0].grow(20, is_made=True)
    for refused in (answers.reserve, reservations[1].grow):
        with pytest.raises(ResourceExhaustedError, match="got 1 bytes more with 200 there"):
            refused(1, is_made=True)
    for reservation in reservations:
        reservation.release()
    sessions = [
        SessionResponseMemory(memory, max_bytes=10_000, max_answer_bytes=800) for _ in range(2)
    ]
    sessions[0].reserve(500)
    with pytest.raises(ResourceExhaustedError, match="of all sessions"):
        sessions[0].reserve(10)
    sessions[0].reserve(500, is_made=True)
    with pytest.raises(ResourceExhaustedError, match="1000 there, 0 of them"):
        sessions[1].reserve(1)
    sessions[1].reserve(800, is_made=True)
    with pytest.raises(ResourceExhaustedError, match="of all sessions"):
        sessions[1].reserve(1, is_made=True)
    assert memory.used == 1800


def test_memory_lasts_as_long_as_a_block(answers: SessionResponseMemory) -> None:
    with answers.reserving(50):
        assert answers.used_bytes == 50
    assert answers.used_bytes == 0

    def fail() -> None:
        with answers.reserving(50):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert answers.used_bytes == 0


def take_all(session: SessionResponseMemory) -> None:
    while True:
        session.reserve(10)


def test_one_session_leaves_memory_for_others(memory: ResponseMemory) -> None:
    sessions = [
        SessionResponseMemory(memory, max_bytes=10_000, max_answer_bytes=800) for _ in range(4)
    ]
    taken = []
    for session in sessions:
        with pytest.raises(ResourceExhaustedError, match=r"of all sessions .* may take 1000 bytes"):
            take_all(session)
        taken.append(session.used_bytes)
    assert taken == [500, 250, 130, 60]
    assert memory.used == sum(taken)


def test_the_only_answer_of_all_has_memory(memory: ResponseMemory) -> None:
    sessions = [
        SessionResponseMemory(memory, max_bytes=10_000, max_answer_bytes=2000) for _ in range(2)
    ]
    reservation = sessions[0].reserve(1500)
    reported = "got 1 bytes more with 1500 there, 0 of them this session's"
    with pytest.raises(ResourceExhaustedError, match=reported):
        sessions[1].reserve(1)
    assert sessions[1].used_bytes == 0
    reservation.release()
    sessions[1].reserve(1500)


def test_one_caller_leaves_memory_for_another() -> None:
    memory = ResponseMemory(1000, CallerShares(identity=0.75, connection=0.5))
    callers = [
        Caller("greedy", "0"),
        Caller("greedy", "0"),
        Caller("greedy", "1"),
        Caller("other", "2"),
    ]
    sessions = [
        SessionResponseMemory(memory, max_bytes=10_000, max_answer_bytes=2000, caller=caller)
        for caller in callers
    ]
    reservations = [sessions[0].reserve(300)]
    reported = (
        "a connection may have 0.5 of the 1000 bytes of answers that were not read .* got 201 "
    )
    with pytest.raises(ResourceExhaustedError, match=reported) as caught:
        sessions[1].reserve(201)
    assert "Read the answers" in caught.value.hint
    reservations.append(sessions[1].reserve(200))
    # The only answer of a connection fits, within the share of its identity.
    with pytest.raises(ResourceExhaustedError, match=r"an identity may have 0.75 of the 1000"):
        sessions[2].reserve(251)
    reservations.append(sessions[2].reserve(250))
    sessions[3].reserve(250)
    with pytest.raises(ResourceExhaustedError, match="of all sessions"):
        sessions[3].reserve(1)
    for reservation in reservations:
        reservation.release()
    sessions[3].reserve(250)
    assert memory.used == 500


def test_the_only_answer_of_a_caller_has_memory() -> None:
    memory = ResponseMemory(1000, CallerShares(identity=0.75, connection=0.5))
    session = SessionResponseMemory(
        memory, max_bytes=10_000, max_answer_bytes=2000, caller=Caller("one", "0")
    )
    reservation = session.reserve(600)
    reservation.grow(100)
    with pytest.raises(ResourceExhaustedError):
        session.reserve(1)
