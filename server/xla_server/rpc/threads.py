"""Threads for calls: what a thread pool does, without results that nobody asks for."""

import functools
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_LOG = logging.getLogger(__name__)


class Job:
    """Something to be done, whose end can be told."""

    __slots__ = ("_arguments", "_callbacks", "_do", "_is_over")

    def __init__(self, do: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._do = do
        self._arguments = arguments
        self._callbacks: list[Callable[[Job], object]] = []
        self._is_over = False

    def add_done_callback(self, callback: "Callable[[Job], object]") -> None:
        """Call `callback` once, when the job is over or was dropped; called by grpc."""
        self._callbacks.append(callback)
        if self._is_over:
            self.end()

    def run(self) -> None:
        """Do it; what it raises is for the log alone."""
        try:
            self._do(*self._arguments)
        except BaseException:
            _LOG.exception("a job of the server failed")

    def end(self) -> None:
        """Say that it is over. Each callback is called by whoever takes it from the list."""
        self._is_over = True
        while self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            callback(self)


class Threads(ThreadPoolExecutor):
    """A pool of up to so many threads, which start when they are needed. Any thread may use it.

    The futures of Python's own pool, with a condition variable each, and its count of idle
    threads cost a small call a few percent. grpc takes nothing for a pool but that class, though
    it only ever asks when a job is over; nothing of the class's own is used.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._started: list[threading.Thread] = []
        self._spare = 0
        """Threads that wait for a job; below 0, jobs that wait for a thread."""
        self._is_closed = False
        self._changing = threading.Lock()

    def submit(self, do: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Let a thread call `do` with these arguments; gives the Job.

        Raises RuntimeError after `shutdown`.
        """
        job = Job(functools.partial(do, **named) if named else do, arguments)
        with self._changing:
            if self._is_closed:
                raise RuntimeError("threads must be open to be given a job, got closed ones")
            if self._spare > 0 or len(self._started) >= self._size:
                self._spare -= 1
            else:
                self._start()
            self._jobs.put(job)
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; drop those that wait, if wished. Waits for the threads, if wished."""
        with self._changing:
            self._is_closed = True
            dropped = self._take_all() if cancel_futures else []
            for _ in self._started:
                self._jobs.put(None)
        for job in dropped:
            job.end()
        if wait:
            for thread in self._started:
                thread.join()

    def _take_all(self) -> list[Job]:
        jobs: list[Job] = []
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs
            if job is not None:
                jobs.append(job)

    def _start(self) -> None:
        name = f"{self._name}_{len(self._started)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._started.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            job.end()
            # It holds the call, which must not last as long as this thread has nothing to do.
            del job
            with self._changing:
                self._spare += 1
