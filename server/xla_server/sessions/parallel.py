"""Running several jobs at the same time, all or nothing."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from xla_contract.errors import XlaError
from xla_server.evaluator.cancellation import Cancellation

T = TypeVar("T")


def run_together(
    jobs: Sequence[Callable[[Cancellation], T]], cancellation: Cancellation
) -> list[T]:
    """The results of the jobs, each run in a thread of its own, in their order.

    The first job to fail cancels the others: one of them may wait for what it will never send.
    Its error is raised when all have ended. `cancellation` cancels all.
    """
    if len(jobs) == 1:
        return [jobs[0](cancellation)]
    group = Cancellation()
    failures: list[BaseException] = []
    lock = threading.Lock()

    def run(job: Callable[[Cancellation], T]) -> T:
        try:
            return job(group)
        except BaseException as error:  # The others must not go on, whatever it was.
            with lock:
                failures.append(error)
            group.cancel()
            raise

    forget = cancellation.add_callback(lambda: _pass_on(cancellation, group))
    try:
        with ThreadPoolExecutor(len(jobs), thread_name_prefix="xla-together") as pool:
            futures = [pool.submit(run, job) for job in jobs]
    finally:
        forget()
    if failures:
        raise failures[0]
    return [future.result() for future in futures]


def _pass_on(cancellation: Cancellation, group: Cancellation) -> None:
    try:
        cancellation.check()
    except XlaError as error:
        group.cancel(error)
