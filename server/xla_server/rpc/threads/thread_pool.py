"""Thread pool for calls, without futures of their results."""

import contextlib
import functools
import itertools
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xla_contract.errors import ResourceExhaustedError
from xla_server.execution.start_thread import start_thread
from xla_server.rpc.threads.fair_queue import FairQueue
from xla_server.sessions.limits.blocking import worker_context
from xla_server.sessions.limits.shares.caller import LOCAL_FLOW, Flow
from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares

_LOG = logging.getLogger(__name__)


class Task:
    """A job with callbacks at its end."""

    __slots__ = ("_callbacks", "_do", "_is_over", "arguments", "flow")

    def __init__(
        self, do: Callable[..., object], arguments: tuple[Any, ...], flow: Flow = LOCAL_FLOW
    ) -> None:
        self._do = do
        self.arguments = arguments
        self.flow = flow
        """The flow whose turn the job takes if it has to wait for a thread."""
        self._callbacks: list[Callable[[Task], object]] = []
        self._is_over = False

    def add_done_callback(self, callback: "Callable[[Task], object]") -> None:
        """Call `callback` once, when the job is over or was dropped; called by grpc."""
        self._callbacks.append(callback)
        if self._is_over:
            self.end()

    def run(self) -> None:
        """Run the job; its exceptions are only logged."""
        try:
            self._do(*self.arguments)
        except BaseException:
            _LOG.exception("a job of the server failed")

    def end(self) -> None:
        """Mark the job as over. The thread that takes a callback from the list calls it."""
        self._is_over = True
        while self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            callback(self)


class ThreadPool(ThreadPoolExecutor):
    """A pool of a bounded number of threads, which start when they are needed, but for the first.

    Thread-safe. Its construction raises as `start_thread`.

    Threads that wait for others can lend their slots (`sessions.limits.blocking`), `max_lent` at
    the same time. If the system refuses a new thread, jobs wait for the existing ones.

    Waiting jobs take turns (`FairQueue`). With `shares` no caller has more than its share of the
    threads, of which lent slots are none.

    Python's own pool costs a small call a few percent, with a condition variable in each future and
    a count of idle threads. The class is derived because grpc requires a ThreadPoolExecutor, of
    which it uses the futures' callbacks alone.
    """

    def __init__(
        self,
        size: int,
        name: str,
        *,
        max_lent: int = 1024,
        shares: CallerShares | None = None,
    ) -> None:
        self._size = size
        self._max_lent = max_lent
        self._lent = 0
        self._names = (f"{name}_{number}" for number in itertools.count())
        self._jobs: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        """Jobs that have a thread, which is idle or has just been started."""
        self._waiting = FairQueue[Task](size, EVERYTHING if shares is None else shares)
        """Jobs without a thread. Guarded by `_changing`."""
        self._is_closed = False
        self._changing = threading.Lock()
        # Jobs can wait for the first one where the system refuses others.
        self._started = [start_thread(self._work, next(self._names))]
        self._spare = 1
        """Number of threads that wait for a job."""
        self._ending = 0
        """Number of threads that were idle beyond the limit, and are about to end."""

    def submit(self, do: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Call `do` with these arguments in a thread; return the Job.

        Raises RuntimeError after `shutdown`.
        """
        job = Task(functools.partial(do, **named) if named else do, arguments)
        self.begin(job)
        return job

    def submit_for(self, flow: Flow, do: Callable[..., object], /, *arguments: Any) -> None:
        """Call `do` in a thread, when it is the turn of `flow`; raises as `submit`."""
        self.begin(Task(do, arguments, flow))

    def begin(self, job: Task) -> None:
        """Run a job in a thread; raises RuntimeError after `shutdown`."""
        with self._changing:
            if self._is_closed:
                raise RuntimeError("threads must be open to be given a job, got closed ones")
            if self._has_thread() and self._waiting.start(job):
                self._assign(job)
            else:
                self._waiting.append(job)

    def _has_thread(self) -> bool:
        """Find a free thread or start one; return whether there is one. Under the lock."""
        return self._spare > 0 or self._start()

    def _assign(self, job: Task) -> None:
        """Assign a job to a free thread. Under the lock."""
        self._spare -= 1
        self._jobs.put(job)

    def lend(self) -> bool:
        """Allow one thread more until `reclaim`, as one waits; False beyond the limit."""
        with self._changing:
            if self._lent >= self._max_lent:
                return False
            self._lent += 1
            if len(self._waiting) and not self._is_closed:
                self._start_waiting()
            return True

    def _start_waiting(self) -> None:
        """Assign a job that waits to a thread, if there are both. Under the lock."""
        if self._has_thread() and (job := self._waiting.pop()) is not None:
            self._assign(job)

    def reclaim(self) -> None:
        """Allow one thread less; a surplus thread ends, after its job if it has one."""
        with self._changing:
            self._lent -= 1
            self._end_surplus()

    def _end_surplus(self) -> None:
        """End idle threads beyond the limit. Under the lock."""
        while self._spare > 0 and self._is_surplus():
            self._spare -= 1
            self._ending += 1
            self._jobs.put(None)

    def _is_surplus(self) -> bool:
        return len(self._started) - self._ending > self._size + self._lent

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for a thread."""
        return len(self._waiting)

    @property
    def count(self) -> int:
        """Number of threads."""
        return len(self._started)

    def is_idle(self) -> bool:
        """Return whether no job runs or waits."""
        with self._changing:
            is_idle = self._spare == len(self._started) - self._ending
            return is_idle and not len(self._waiting)

    @contextlib.contextmanager
    def larger(self, count: int) -> Iterator[None]:
        """Allow `count` threads more for the block."""
        with self._changing:
            self._size += count
        try:
            yield
        finally:
            with self._changing:
                self._size -= count
                self._end_surplus()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse new jobs; drop waiting ones if `cancel_futures`; join the threads if `wait`."""
        with self._changing:
            self._is_closed = True
            dropped = self._pop_all() if cancel_futures else []
            threads = tuple(self._started)
            for _ in threads:
                self._jobs.put(None)
        for job in dropped:
            job.end()
        if wait:
            for thread in threads:
                thread.join()

    def _pop_all(self) -> list[Task]:
        """Remove all jobs that no thread has begun. Under the lock."""
        jobs = self._waiting.pop_all()
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs
            if job is not None:
                self._waiting.done(job)
                self._spare += 1
                jobs.append(job)

    def _start(self) -> bool:
        """Start a thread; False at the limit, or if the system refuses one."""
        if len(self._started) - self._ending >= self._size + self._lent:
            return False
        try:
            self._started.append(start_thread(self._work, next(self._names)))
        except ResourceExhaustedError as error:
            _LOG.warning("no thread could be started beside %d: %s", len(self._started), error)
            return False
        self._spare += 1
        return True

    def _work(self) -> None:
        worker_context(self)
        job = self._jobs.get()
        while job is not None:
            job.run()
            job.end()
            with self._changing:
                self._waiting.done(job)
                # The job holds the call, which must not live while this thread is idle.
                job = None
                if self._is_surplus():
                    self._started.remove(threading.current_thread())
                    if self._spare > 0:
                        # A job whose caller had its whole share of the threads may get one now.
                        self._start_waiting()
                    return
                job = self._waiting.pop()
                if job is None:
                    self._spare += 1
            if job is None:
                job = self._jobs.get()
        with self._changing:
            if self._ending > 0 and not self._is_closed:
                self._ending -= 1
                self._started.remove(threading.current_thread())
