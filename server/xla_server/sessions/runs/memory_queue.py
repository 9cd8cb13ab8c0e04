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
import functools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.start_thread import start_thread
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.values.value_table import Reservation, ValueTable

Outcome: TypeAlias = Reservation | XlaError | None
"""The memory of an execution that has waited, or its error; None for one that was given up."""


@dataclasses.dataclass(slots=True, eq=False)
class _Waiter:
    """An execution in the queue; any thread calls `on_left` with the outcome once it has left."""

    table: ValueTable
    byte_size: int
    purpose: object
    deadline: float
    on_left: Callable[[Outcome], None]


class MemoryQueue:
    """The queue of one server. Thread-safe.

    Executions wait for `wait_seconds` at most; those that pass others have the bytes together that
    uploads spare.
    A thread of its own serves the queue, while it is not empty, whenever memory is given back.
    """

    def __init__(self, memory: MemoryBudget, wait_seconds: float) -> None:
        self._memory = memory
        self._wait_seconds = wait_seconds
        self._passed_bytes = 0
        self.waited_seconds = 0.0
        """Seconds that all executions which have left have waited."""
        self._waiters: list[_Waiter] = []
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
        left: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        entered = self.enter(table, byte_size, purpose, left.put)
        if isinstance(entered, Reservation):
            return entered
        with cancellation.calling(entered):
            lent = contextlib.nullcontext() if slots is None else _released(slots)
            with releasing_slot(), lent:
                outcome = left.get()
        if isinstance(outcome, Reservation) and not cancellation.is_cancelled:
            return outcome
        if isinstance(outcome, Reservation):
            outcome.release()
        cancellation.check()
        assert isinstance(outcome, XlaError), "it was not given up"
        raise outcome

    def enter(
        self,
        table: ValueTable,
        byte_size: int,
        purpose: object,
        on_left: Callable[[Outcome], None],
    ) -> Reservation | Callable[[], None]:
        """Reserve memory of a session for an execution, or queue it; return how to give that up.

        `on_left` must not wait. Giving up has no effect once it was called. Raises
        ResourceExhaustedError, with the limits and the use, for what can never fit, and
        InvalidArgumentError as `ValueTable.reserve` does.
        """
        if not self._waiters:
            try:
                return table.reserve(byte_size, purpose, is_running=True)
            except ResourceExhaustedError:
                if not self._may_fit(table, byte_size):
                    raise
        deadline = time.monotonic() + self._wait_seconds
        waiter = _Waiter(table, byte_size, purpose, deadline, on_left)
        with self._lock:
            if not self._may_fit(table, byte_size):
                table.require(byte_size, purpose)
            if self._thread is None:
                self._thread = start_thread(self._watch, "memory")
            self._waiters.append(waiter)
            self._memory.on_change = self._changed.set
        self._changed.set()
        return functools.partial(self._give_up, waiter)

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter not in self._waiters:
                return
            self._count_wait(waiter)
            self._waiters.remove(waiter)
        # Waiters behind it may be served now.
        self._changed.set()
        waiter.on_left(None)

    def _watch(self) -> None:
        while True:
            with self._lock:
                left = self._settle_ready()
                if not self._waiters:
                    self._memory.on_change = None
                    self._thread = None
                next_deadline = min((each.deadline for each in self._waiters), default=None)
            for waiter, outcome in left:
                waiter.on_left(outcome)
            if next_deadline is None:
                return
            self._changed.wait(max(0.0, next_deadline - time.monotonic()))
            self._changed.clear()

    def _settle_ready(self) -> list[tuple[_Waiter, Outcome]]:
        """Remove all waiters that have an outcome, and return them. Called with the lock held."""
        now = time.monotonic()
        left: list[tuple[_Waiter, Outcome]] = []
        staying: list[_Waiter] = []
        held_up: set[ValueTable] = set()
        is_held_up = False
        for waiter in self._waiters:
            table = waiter.table
            is_passing = is_held_up or table in held_up
            outcome = self._taken(waiter, is_passing=is_passing) or self._refusal(waiter, now)
            if outcome is not None:
                self._count_wait(waiter)
                left.append((waiter, outcome))
                continue
            staying.append(waiter)
            if not self._memory.has_capacity(waiter.byte_size):
                is_held_up = True
            else:
                # A session's own limit does not hold up other sessions.
                held_up.add(table)
        self._waiters = staying
        return left

    def _count_wait(self, waiter: _Waiter) -> None:
        """Count how long a waiter that leaves has waited. Called with the lock held."""
        self.waited_seconds += time.monotonic() - waiter.deadline + self._wait_seconds

    def _taken(self, waiter: _Waiter, *, is_passing: bool) -> Reservation | XlaError | None:
        """Take the memory of a waiter, if it may have it now."""
        if is_passing and self._passed_bytes + waiter.byte_size > self._memory.spared_bytes:
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

    def _refusal(self, waiter: _Waiter, now: float) -> XlaError | None:
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
