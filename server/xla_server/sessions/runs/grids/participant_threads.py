"""Threads for participants of executions, kept between executions.

Each job gets a thread at once: participants wait for each other, so none may wait for a thread.
Starting one takes as long as a small collective, which is why some are kept.
"""

import threading
from collections.abc import Callable

MAX_IDLE = 32
"""Most idle threads that are kept for the participants of later executions."""


def start(job: Callable[[], None]) -> None:
    """Run a job, which must not raise, in a thread of its own, idle or new."""
    with _LOCK:
        thread = _IDLE.pop() if _IDLE else None
    if thread is None:
        thread = _Participant()
        thread.start()
    thread.start_job(job)


class _Participant(threading.Thread):
    """A thread that runs one job after another."""

    def __init__(self) -> None:
        super().__init__(name="xla-participant", daemon=True)
        self._job: Callable[[], None] | None = None
        self._bell = threading.Lock()
        self._bell.acquire()

    def start_job(self, job: Callable[[], None]) -> None:
        """Run a job in the thread, which must be idle."""
        self._job = job
        self._bell.release()

    def run(self) -> None:
        """Run jobs until MAX_IDLE other threads are idle."""
        while True:
            self._bell.acquire()
            job, self._job = self._job, None
            if job is not None:
                job()
            # A waiting thread must not hold what the job did.
            del job
            with _LOCK:
                if len(_IDLE) >= MAX_IDLE:
                    return
                _IDLE.append(self)


_LOCK = threading.Lock()
_IDLE: list[_Participant] = []
