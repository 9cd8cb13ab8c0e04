"""Independent runs at the same time, each with an outcome of its own."""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.error_context import reported
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.runs.run import MAX_RUNS
from xla_server.sessions.values.futures import ValueFuture, ValuePendingError
from xla_server.sessions.values.value_table import ValueTable

Q = TypeVar("Q")
R = TypeVar("R")


@dataclasses.dataclass(eq=False)
class Batch(Generic[Q, R]):
    """The runs of one RunBatch.

    They run in the threads of `submit`, as many as `running` has slots. A thread that has ended one
    run begins the next, so that many small runs take few threads. `run` executes a run in its
    thread's slot, and `values_of` returns the handles of the values that a run names.
    """

    _values: ValueTable
    _running: FairSemaphore
    _submit: Callable[..., Any]
    _requests: Sequence[Q]
    _values_of: Callable[[Q], Iterable[int]]
    _cancellation: Cancellation
    _run: Callable[[Q, Cancellation], R]
    _done: Callable[[list[R | XlaError]], None]

    def __post_init__(self) -> None:
        self._outcomes: list[R | XlaError | None] = [None] * len(self._requests)
        self._next = 0
        self._left = len(self._requests)
        self._threads = 0
        self._starting = 0
        """Threads that have a slot and have not begun."""
        self._working = 0
        """Threads that have begun and have not left their slots."""
        self._is_reported = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin; `done` is called with the outcomes, in order, in one of the threads.

        The slots of the runs are free then.

        Raises InvalidArgumentError for none or too many, ValuePendingError while a value that a run
        names is not computed yet.
        """
        if not 1 <= len(self._requests) <= MAX_RUNS:
            raise InvalidArgumentError(
                f"a batch must have between 1 and {MAX_RUNS} runs, got {len(self._requests)}"
            )
        for request in self._requests:
            self._require_values(request)
        self._add_thread()

    def _require_values(self, request: Q) -> None:
        for handle in self._values_of(request):
            try:
                entry = self._values.handles.get(handle)
                if isinstance(entry, ValueFuture):
                    entry.result()
            except XlaError:
                # The error becomes the run's own outcome.
                return

    def _add_thread(self) -> None:
        """Add a thread while there are runs that have not begun."""
        with self._lock:
            wanted = self._next < len(self._requests) and self._threads < self._running.limit
            self._threads += wanted
        if wanted:
            self._running.acquire_async(self._start_thread)

    def _start_thread(self) -> None:
        with self._lock:
            self._starting += 1
        self._submit(self._work)

    def _work(self) -> None:
        with self._lock:
            if not self._starting:  # Another thread has left its slot for it.
                return
            self._starting -= 1
            self._working += 1
        try:
            while self._run_next():
                pass
        finally:
            self._leave()

    def _run_next(self) -> bool:
        """Begin the next run; return False if there is none."""
        with self._lock:
            number = self._next
            if number >= len(self._requests):
                return False
            self._next += 1
        self._add_thread()
        self._outcomes[number] = self._outcome(self._requests[number])
        with self._lock:
            self._left -= 1
        return True

    def _leave(self) -> None:
        """Release slots; the last thread to do so reports the outcomes."""
        with self._lock:
            # All runs have begun, so threads that are still starting are not waited for.
            slots, self._starting = 1 + self._starting, 0
        for _ in range(slots):
            self._running.release()
        with self._lock:
            self._working -= 1
            if self._left or self._working or self._is_reported:
                return
            self._is_reported = True
        self._done([each for each in self._outcomes if each is not None])

    def _outcome(self, request: Q) -> R | XlaError:
        try:
            self._cancellation.check()
            with self._cancellation.followed() as cancellation:
                return self._run(request, cancellation)
        except ValuePendingError:
            # The value existed at `start`, so the handle was freed or another run donated it since.
            return InvalidArgumentError("a value of the run was freed before the run began")
        except BaseException as error:
            return reported(error)
