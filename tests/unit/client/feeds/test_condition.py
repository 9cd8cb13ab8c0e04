import asyncio
import math
import threading

from tests.fault.plain import until
from xla_client.feeds.condition import NotifyingLock


def _waiting(changes: NotifyingLock) -> int:
    """Return the number of threads and coroutines that wait."""
    with changes:
        return len(changes._condition._waiters) + len(changes._coroutines)  # type: ignore[attr-defined]


def _change_for(count: int, changes: NotifyingLock, seen: list[int]) -> threading.Thread:
    """Begin a thread that makes a change when so many wait for it."""

    def change() -> None:
        until(lambda: _waiting(changes) >= count)
        with changes:
            seen.append(1)
            changes.notify()

    thread = threading.Thread(target=change)
    thread.start()
    return thread


def test_threads_and_coroutines_are_woken():
    changes, seen = NotifyingLock(), list[int]()
    thread = _change_for(1, changes, seen)
    with changes:
        assert changes.wait_for(lambda: bool(seen), 10)
    thread.join()
    seen.clear()
    thread = _change_for(2, changes, seen)

    async def both() -> list[bool]:
        waits = (changes.until(lambda: bool(seen), 10) for _ in range(2))
        return list(await asyncio.gather(*waits))

    assert asyncio.run(both()) == [True, True]
    thread.join()


def test_what_does_not_happen_is_waited_for_as_long_as_was_said():
    changes = NotifyingLock()
    with changes:
        assert not changes.wait_for(lambda: False, 0.01)
        changes.wait(0.01)
        changes.wait(-1.0)
    assert not asyncio.run(changes.until(lambda: False, 0.01))
    with changes:
        changes.notify()  # To a coroutine whose loop has ended.


def test_who_gives_up_waiting_is_forgotten():
    changes = NotifyingLock()

    async def give_up() -> None:
        assert not await changes.until(lambda: False, 0.001)
        waiting = asyncio.ensure_future(changes.until(lambda: False))
        while not changes._coroutines:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()

    asyncio.run(give_up())
    assert not changes._coroutines


def test_time_without_end_may_be_given():
    changes, seen = NotifyingLock(), list[int]()
    thread = _change_for(1, changes, seen)
    with changes:
        assert changes.wait_for(lambda: bool(seen), math.inf)
    thread.join()
