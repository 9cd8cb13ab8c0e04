import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.semaphores import FairSemaphore


def test_slots_are_as_many_as_the_limit_says() -> None:
    slots = FairSemaphore(2, "executions at the same time", "Wait.")
    with slots.acquired(), slots.acquired():
        with pytest.raises(
            ResourceExhaustedError, match=r"2 executions at.*with 2 there"
        ) as caught:
            slots.acquire()
        assert caught.value.hint == "Wait."
    assert slots.used == 0


def test_the_first_in_the_queue_gets_the_free_slot() -> None:
    slots = FairSemaphore(1, "executions at the same time", "Wait.")
    turns: list[int] = []
    for number in range(3):
        slots.acquire_async(lambda number=number: turns.append(number))  # type: ignore[misc]
    assert turns == [0]
    with pytest.raises(ResourceExhaustedError):
        slots.acquire()
    slots.release()
    assert turns == [0, 1]
    slots.release()
    slots.release()
    assert turns == [0, 1, 2]
    assert slots.used == 0
