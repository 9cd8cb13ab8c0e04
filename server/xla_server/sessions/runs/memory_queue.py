"""A queue of executions that wait for memory which other executions give back.

- An execution begins at once if the queue is empty and its memory is free.
- It is refused at once if it can never fit: it needs more than the devices, or its session, have
  beside bytes that no running execution gives back (values, uploads).
- Otherwise it waits. The first in the queue gets memory as soon as there is enough, and those
  behind it wait for it, so a large one is not starved. Only executions that together fit into the
  share that is spared for others pass it. So a waiting execution does not stop small programs, and
  one that needs more than the rest may have to wait for those.
- If an execution waits for its session's own limit, only later executions of that session wait
  behind it.
- No execution waits while it holds memory, so those that hold some always proceed.
"""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.start_thread import start_thread
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.values.value_table import Reservation, ValueTable


@dataclasses.dataclass(slots=True, eq=False)
class MemoryWaiter:
    """An execution in the queue; any thread calls `on_left` with it once it has left."""

    table: ValueTable
    byte_size: int
    purpose: object
    deadline: float
    on_left: "Callable[[MemoryWaiter], None]"
    has_left: bool = False
    outcome: Reservation | XlaError | None = None
    """Once it has left: the memory, the error, or None if it was given up."""

    @property
    def was_given_up(self) -> bool:
        """Return whether it has left with neither memory nor an error."""
        return self.has_left and self.outcome is None

    def settle(self, outcome: Reservation | XlaError | None) -> None:
        """Leave the queue; `on_left` is still to be called."""
        self.has_left, self.outcome = True, outcome

    def result(self) -> Reservation:
        """Return the memory, once it has left; raises the error if it got none."""
        if isinstance(self.outcome, XlaError):
            raise self.outcome
        assert self.outcome is not None
        return self.outcome

    def release(self) -> None:
        """Release the memory, if it got some."""
        if isinstance(self.outcome, Reservation):
            self.outcome.release()


class MemoryQueue:
    """The queue of one server. Thread-safe.

    Executions wait for `wait_seconds` at most; those that pass others have `spared_bytes` together.
    A thread of its own serves the queue, while it is not empty, whenever memory is given back.
    """

    def __init__(
        self,
        memory: MemoryBudget,
        *,
        wait_seconds: float = 60.0,
        spared_bytes: int = 0,
    ) -> None:
        self._memory = memory
        self._wait_seconds = wait_seconds
        self._spared_bytes = spared_bytes
        self._passed_bytes = 0
        self.waited_seconds = 0.0
        """Seconds that all executions which have left have waited."""
        self._waiters: list[MemoryWaiter] = []
        self._thread: threading.Thread | None = None
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._passed_lock = threading.Lock()

    def __len__(self) -> int:
        """The number of waiting executions."""
        return len(self._waiters)

    def reserve(
        self,
        table: ValueTable,
        byte_size: int,
        purpose: object,
        cancellation: Cancellation,
        slots: FairSemaphore | None = None,
    ) -> Reservation:
        """Reserve memory of a session for an execution; waits in the calling thread.

        A slot of `slots` that the caller has is lent while it waits. Raises as `enter`,
        ResourceExhaustedError after `wait_seconds` too, and the error of `cancellation`.
        """
        left = threading.Event()
        entered = self.enter(table, byte_size, purpose, lambda _: left.set())
        if isinstance(entered, Reservation):
            return entered
        try:
            with cancellation.calling(lambda: self.leave(entered)):
                lent = contextlib.nullcontext() if slots is None else _released(slots)
                with releasing_slot(), lent:
                    left.wait()
                cancellation.check()
        except BaseException:
            entered.release()
            raise
        return entered.result()

    def enter(
        self,
        table: ValueTable,
        byte_size: int,
        purpose: object,
        on_left: Callable[[MemoryWaiter], None],
    ) -> Reservation | MemoryWaiter:
        """Reserve memory of a session for an execution, or queue the execution.

        `on_left` must not wait. Raises ResourceExhaustedError, with the limits and the use, for
        what can never fit, and InvalidArgumentError as `ValueTable.reserve` does.
        """
        if not self._waiters:
            try:
                return table.reserve(byte_size, purpose, is_running=True)
            except ResourceExhaustedError:
                if not self._may_fit(table, byte_size):
                    raise
        waiter = MemoryWaiter(
            table, byte_size, purpose, time.monotonic() + self._wait_seconds, on_left
        )
        with self._lock:
            if not self._may_fit(table, byte_size):
                table.require(byte_size, purpose)
            if self._thread is None:
                self._thread = start_thread(self._watch, "memory")
            self._waiters.append(waiter)
            self._memory.on_change = self._changed.set
        self._changed.set()
        return waiter

    def leave(self, waiter: MemoryWaiter) -> None:
        """Leave the queue; no effect if it has left."""
        with self._lock:
            if waiter.has_left:
                return
            self._settle(waiter, None)
            self._waiters.remove(waiter)
        # Waiters behind it may be served now.
        self._changed.set()
        waiter.on_left(waiter)

    def _watch(self) -> None:
        while True:
            with self._lock:
                left = self._settle_ready()
                if not self._waiters:
                    self._memory.on_change = None
                    self._thread = None
                next_deadline = min((each.deadline for each in self._waiters), default=None)
            for waiter in left:
                waiter.on_left(waiter)
            if next_deadline is None:
                return
            self._changed.wait(max(0.0, next_deadline - time.monotonic()))
            self._changed.clear()

    def _settle_ready(self) -> list[MemoryWaiter]:
        """Settle all waiters that can be; return them. Called with the lock held."""
        now = time.monotonic()
        left: list[MemoryWaiter] = []
        staying: list[MemoryWaiter] = []
        held_up: set[ValueTable] = set()
        is_held_up = False
        for waiter in self._waiters:
            table = waiter.table
            is_passing = is_held_up or table in held_up
            outcome = self._taken(waiter, is_passing=is_passing) or self._refusal(waiter, now)
            if outcome is not None:
                self._settle(waiter, outcome)
                left.append(waiter)
                continue
            staying.append(waiter)
            if not self._memory.has_capacity(waiter.byte_size):
                is_held_up = True
            else:
                # A session's own limit does not hold up other sessions.
                held_up.add(table)
        self._waiters = staying
        return left

    def _settle(self, waiter: MemoryWaiter, outcome: Reservation | XlaError | None) -> None:
        """Let a waiter leave. Called with the lock held."""
        waiter.settle(outcome)
        self.waited_seconds += time.monotonic() - waiter.deadline + self._wait_seconds

    def _taken(self, waiter: MemoryWaiter, *, is_passing: bool) -> Reservation | XlaError | None:
        """Take the memory of a waiter, if it may have it now."""
        if is_passing and self._passed_bytes + waiter.byte_size > self._spared_bytes:
            return None
        on_release = self._passed if is_passing else None
        try:
            reservation = waiter.table.reserve(
                waiter.byte_size, waiter.purpose, is_running=True, on_release=on_release
            )
        except ResourceExhaustedError:
            return None
        except XlaError as error:
            return error
        if is_passing:
            self._passed(-waiter.byte_size)
        return reservation

    def _passed(self, byte_size: int) -> None:
        """Count `byte_size` bytes as given back by executions that passed others."""
        with self._passed_lock:
            self._passed_bytes -= byte_size

    def _refusal(self, waiter: MemoryWaiter, now: float) -> XlaError | None:
        """Return the error that ends an execution's wait, if there is one."""
        is_late = now >= waiter.deadline
        if not is_late and self._may_fit(waiter.table, waiter.byte_size):
            return None
        try:
            waiter.table.require(waiter.byte_size, waiter.purpose)
        except XlaError as error:
            if not is_late:
                return error
            reason = error.message
        else:
            if not is_late:
                return None
            reason = f"others that wait come before {waiter.purpose}"
        return ResourceExhaustedError(
            f"an execution may wait {self._wait_seconds:g} s for memory, got none in that time: "
            f"{reason}",
            hint="Run fewer programs at the same time, or raise execution_wait_seconds.",
        )

    def _may_fit(self, table: ValueTable, byte_size: int) -> bool:
        """Return whether the bytes fit beside memory that no running execution gives back."""
        memory = self._memory
        return (
            self._wait_seconds > 0
            and byte_size <= table.max_bytes - table.staying_bytes
            and byte_size <= memory.max_bytes - memory.staying_bytes
        )


@contextlib.contextmanager
def _released(slots: FairSemaphore) -> Iterator[None]:
    """Release a slot for the block, then wait for another one."""
    slots.release()
    try:
        yield
    finally:
        taken = threading.Event()
        slots.acquire_async(taken.set)
        taken.wait()
