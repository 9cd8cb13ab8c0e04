"""Running several jobs at the same time, all or nothing."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.limits.blocking import Passing, releasing_slot, worker_context

T = TypeVar("T")


def run_all_or_none(
    jobs: Sequence[Callable[[Cancellation], T]], cancellation: Cancellation
) -> list[T]:
    """The results of the jobs, each run in a thread of its own, in their order.

    The first job to fail cancels the others: one of them may wait for what it will never send.
    Its error is raised when all have ended. `cancellation` cancels all.
    """
    if len(jobs) == 1:
        return [jobs[0](cancellation)]
    failures: list[BaseException] = []
    lock = threading.Lock()

    def run(job: Callable[[Cancellation], T]) -> T:
        try:
            with group.followed() as own:
                return job(own)
        except BaseException as error:  # The others must not go on, whatever it was.
            with lock:
                failures.append(error)
            group.cancel()
            raise

    with cancellation.followed() as group, releasing_slot():
        threads = ThreadPoolExecutor(
            len(jobs), "xla-together", initializer=worker_context, initargs=(Passing(),)
        )
        with threads:
            futures = [threads.submit(run, job) for job in jobs]
    if failures:
        raise failures[0]
    return [future.result() for future in futures]
