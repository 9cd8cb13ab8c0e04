"""A lock with notification of changes, for threads and for coroutines."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType


class NotifyingLock:
    """A reentrant lock whose holders can wait for changes of the state that it guards."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._coroutines: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def __enter__(self) -> None:
        self._condition.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._condition.__exit__(kind, error, traceback)

    def notify(self) -> None:
        """Wake all waiters. The caller must hold the lock."""
        self._condition.notify_all()
        coroutines, self._coroutines = self._coroutines, []
        for loop, future in coroutines:
            # The loop of an abandoned coroutine may be closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_set, future)

    def wait_for(self, is_ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `is_ready`, called with the lock held; False after `timeout` seconds.

        The caller must hold the lock.
        """
        # More is an OverflowError.
        limit = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        return self._condition.wait_for(is_ready, limit)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the next notification, or for `timeout` seconds.

        The caller must hold the lock.
        """
        self._condition.wait(None if timeout is None else max(0.0, timeout))

    async def until(self, is_ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait as `wait_for` does, without blocking; the caller must not hold the lock."""
        deadline = None if timeout is None else time.monotonic() + timeout
        loop = asyncio.get_running_loop()
        while True:
            with self:
                if is_ready():
                    return True
                future: asyncio.Future[None] = loop.create_future()
                waiter = loop, future
                self._coroutines.append(waiter)
            left = None if deadline is None else deadline - time.monotonic()
            try:
                await asyncio.wait_for(future, left)
            except BaseException as error:  # No notification may follow: remove the waiter.
                with self:
                    if waiter in self._coroutines:
                        self._coroutines.remove(waiter)
                    if isinstance(error, TimeoutError):
                        return is_ready()
                raise


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
