"""Time slicing: long-running programs yield to those that have just begun, and take turns.

A program may never end, and clients may run any number of such programs. One thread polls the
running programs, some hundred times a second. A program that it has seen for LENDING_SECONDS lends
its slot in its pool, so that another call finds a thread. If more such programs run than there are
cores, they take turns, as many as cores at a time, beside as many of the youngest. The others wait
at points where they would notice a cancellation, between two instructions or in native code. So few
threads compete for the cores and for Python's lock, and a new program, which runs at once, gets its
share.

Time slices go to identities, then to their connections, then to their sessions, by the processor
time that their long-running programs took (`sessions.limits.shares.processor_shares`). Each of n
identities with such programs has an n-th of it, however many programs it runs, and however unevenly
the system gives cores to their threads.
"""

import contextlib
import dataclasses
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator

from xla_contract.errors import ResourceExhaustedError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.start_thread import start_thread
from xla_server.sessions.limits.blocking import Worker, current_worker
from xla_server.sessions.limits.shares.caller import LOCAL_FLOW, Flow
from xla_server.sessions.limits.shares.processor_shares import ProcessorShares
from xla_server.target.available import available_cores

PERIOD = 0.01
"""Seconds between two polls of the running programs: the longest time slice on an idle core."""

SLICE_SECONDS = PERIOD / 2
"""Processor time after which the next poll ends a time slice, in seconds.

It is less than the time between two polls, so that a program that has a core has slices of one
poll.
"""

NEW_SECONDS = 0.02
"""Seconds that a program runs before it takes turns with others."""

YOUNG_SECONDS = 1.0
"""Seconds that one of the youngest programs, as many as cores, runs beside those in time slices.

Programs of the callers that took the least processor time do so.
"""

MAX_LEAD_SECONDS = 0.1
"""Processor time that a caller has taken more than others, up to which its young programs run.

A caller that begins programs all the time would otherwise have all of a core, or half of it.
"""

MIN_USE = 0.02
"""Part of the wall time that a program in its time slice is charged at least."""

LENDING_SECONDS = 0.05
"""Seconds that a program runs before it lends its slot."""

SWITCH_SECONDS = 0.0005
"""Switch interval of Python's lock while programs run for long, in seconds.

Python's default is ten times as long, and a call takes the lock a few times. The short interval
would cost many short calls more than it gives, as they end sooner.
"""

_IDLE_POLLS = 100
"""Polls without a running program before the thread sleeps."""

_SLEEP_SECONDS = 10.0
"""Seconds that it sleeps before it ends."""


class _Switching:
    """The switch interval of Python's lock, which all servers of a process share."""

    def __init__(self) -> None:
        self._owners: set[object] = set()
        """Owners of programs that run for long; the short interval holds while there is one."""
        self._default_interval = 0.0
        self._lock = threading.Lock()

    def set(self, owner: object, *, is_quick: bool) -> None:
        """Shorten the switch interval while `owner` has programs that run for long."""
        if is_quick == (owner in self._owners):
            return
        with self._lock:
            was_quick = bool(self._owners)
            (self._owners.add if is_quick else self._owners.discard)(owner)
            if is_quick and not was_quick:
                self._default_interval = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_SECONDS, self._default_interval))
            elif was_quick and not self._owners:
                sys.setswitchinterval(self._default_interval)


_SWITCHING = _Switching()


@dataclasses.dataclass(slots=True, eq=False)
class TimeSlice:
    """A running execution. Times are seconds of the clock of `TimeSlicer`, 0 for never."""

    cancellation: Cancellation
    flow: Flow = LOCAL_FLOW
    worker: Worker = dataclasses.field(default_factory=current_worker)
    since: float = 0.0
    """Time at which it was first seen running, or last seen waiting for others."""
    last: float = 0.0
    """Time at which its last time slice began."""
    slice_seconds: float = 0.0
    """Seconds charged since then."""
    charged_at: float = 0.0
    """Time up to which it is charged."""
    processor_seconds: float = 0.0
    """Processor time of its threads up to which it is charged."""
    is_charged: bool = False
    """True once it has run for NEW_SECONDS and was charged."""
    ended_with: float | None = None
    """Processor time of its threads at its end, in seconds; None before."""
    is_paused: bool = False
    is_lent: bool = False

    def pause(self, is_paused: bool) -> None:
        """Pause or resume the execution, if it is not so already."""
        if is_paused != self.is_paused:
            self.is_paused = is_paused
            (self.cancellation.pause if is_paused else self.cancellation.proceed)()

    def charge(self, now: float) -> float:
        """Return the seconds to charge for the time since the last call; 0 while it is paused.

        A run is charged processor time, since its thread may wait long for a core that the system
        gives to other processes. So is the processor time of helper threads (`runtime.threads`). It
        is charged wall time while it is outside of its thread.
        """
        seconds, self.charged_at = now - self.charged_at, now
        if self.is_paused:
            return 0.0
        before, self.processor_seconds = self.processor_seconds, self.spent()
        if not self.cancellation.is_outside:
            seconds = max(self.processor_seconds - before, seconds * MIN_USE)
        self.slice_seconds += seconds
        self.is_charged = True
        return seconds

    def end(self) -> None:
        """Keep the processor time as it is now, as the thread goes on with other programs."""
        self.ended_with = self.spent()

    def spent(self) -> float:
        """Return the processor time of its threads in seconds, what they did before included."""
        if self.ended_with is not None:
            return self.ended_with
        return self.worker.processor_seconds() + self.cancellation.helper_seconds


class TimeSlicer:
    """The executions of one server. Thread-safe.

    `at_once` of those that run for long do so at the same time.
    """

    def __init__(self, at_once: int | None = None) -> None:
        self._at_once = at_once or available_cores()
        self._running: set[TimeSlice] = set()
        self._ended: deque[TimeSlice] = deque()
        """Executions that were charged, and have ended since the last poll."""
        self._thread: threading.Thread | None = None
        self._is_asleep = True
        self._woken = threading.Event()
        self._has_paused = False
        self._shares = ProcessorShares()
        self._lock = threading.Lock()

    def begin(self, cancellation: Cancellation, flow: Flow = LOCAL_FLOW) -> TimeSlice:
        """Count an execution of `flow`, in the thread that runs it, until `end`.

        The cancellation must be its own: it is what pauses it.
        """
        time_slice = TimeSlice(cancellation, flow)
        # Its thread has run others before, and helper threads may have executed for them.
        time_slice.processor_seconds = time_slice.spent()
        time_slice.worker.time_slice = time_slice
        # Each operation is atomic, so no lock: the thread sets `_is_asleep` before its last look.
        self._running.add(time_slice)
        if self._is_asleep:
            self._wake()
        return time_slice

    def end(self, time_slice: TimeSlice) -> None:
        """End what `begin` began; in the same thread."""
        time_slice.worker.time_slice = None
        self._running.discard(time_slice)
        if not time_slice.since:
            return
        if time_slice.is_charged:
            time_slice.end()
            self._ended.append(time_slice)
        if self._has_paused:
            # It is the next one's time slice.
            self._woken.set()
        # Only what was seen before is ever lent, and that under the lock.
        with self._lock:
            if time_slice.is_lent and time_slice.worker.pool is not None:
                time_slice.is_lent = False
                time_slice.worker.pool.reclaim()

    @contextlib.contextmanager
    def acquired(self, cancellation: Cancellation, flow: Flow = LOCAL_FLOW) -> Iterator[None]:
        """Count an execution of `flow` for the block."""
        time_slice = self.begin(cancellation, flow)
        try:
            yield
        finally:
            self.end(time_slice)

    def _wake(self) -> None:
        with self._lock, contextlib.suppress(ResourceExhaustedError):
            if self._thread is None:
                # Executions have no time slices until one of them can start it.
                self._thread = start_thread(self._watch, "xla-time-slicing")
            self._is_asleep = False
            self._woken.set()

    def _watch(self) -> None:
        idle_polls = 0
        while True:
            self._woken.wait(PERIOD)
            self._woken.clear()
            time_slices = list(self._running)
            idle_polls = 0 if time_slices else idle_polls + 1
            self.reschedule(time_slices, time.monotonic())
            if idle_polls >= _IDLE_POLLS and not self._sleep():
                return

    def _sleep(self) -> bool:
        """Sleep until an execution begins; False if the thread must end instead."""
        with self._lock:
            self._woken.clear()
            self._is_asleep = True
        if self._running or self._woken.wait(_SLEEP_SECONDS):
            self._is_asleep = False
            return True
        with self._lock:
            if not self._is_asleep:
                return True
            self._thread = None
            return False

    def reschedule(self, time_slices: list[TimeSlice], now: float) -> None:
        """Lend slots, pause and resume executions as of time `now`."""
        long_running: list[TimeSlice] = []
        for time_slice in time_slices:
            if time_slice.worker.is_waiting or not time_slice.since:
                # A waiting program uses no core; it counts as new when it resumes.
                time_slice.since = time_slice.last = time_slice.charged_at = now
                time_slice.pause(False)
                continue
            seconds = now - time_slice.since
            if seconds >= NEW_SECONDS:
                long_running.append(time_slice)
            if seconds >= LENDING_SECONDS and not time_slice.is_lent:
                self._lend(time_slice)
        _SWITCHING.set(self, is_quick=bool(long_running))
        self._let_run(long_running, now)

    def _let_run(self, long_running: list[TimeSlice], now: float) -> None:
        """Resume the long-running executions whose time slice it is, and pause the others."""
        at_once, shares = self._at_once, self._shares
        # On a busy machine polls are rare, and much of a program is executed after the last one.
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        shares.keep({time_slice.flow for time_slice in (*ended, *long_running)})
        for time_slice in (*ended, *long_running):
            shares.charge(time_slice.flow, time_slice.charge(now))
        young = shares.select(
            [
                time_slice
                for time_slice in long_running
                if now - time_slice.since < YOUNG_SECONDS
                and shares.lead(time_slice.flow) <= MAX_LEAD_SECONDS
            ],
            at_once,
            _flow,
            lambda time_slice: -time_slice.since,
            PERIOD,
        )
        beside = set(young)
        long_running = [time_slice for time_slice in long_running if time_slice not in beside]
        self._has_paused = len(long_running) > at_once
        chosen = [
            time_slice
            for time_slice in long_running
            if not time_slice.is_paused and time_slice.slice_seconds < SLICE_SECONDS
        ]
        running = set(chosen[:at_once])
        others = [time_slice for time_slice in long_running if time_slice not in running]
        # Within a session, programs that have waited longest come first.
        resumed = shares.select(
            others, at_once - len(running), _flow, lambda time_slice: time_slice.last, PERIOD
        )
        for time_slice in resumed:
            time_slice.last, time_slice.slice_seconds = now, 0.0
        running.update(resumed)
        for time_slice in (*young, *running):
            time_slice.pause(False)
        for time_slice in others:
            if time_slice not in running:
                time_slice.pause(True)

    def _lend(self, time_slice: TimeSlice) -> None:
        pool = time_slice.worker.pool
        with self._lock:
            if pool is not None and time_slice in self._running:
                time_slice.is_lent = pool.lend()


def _flow(time_slice: TimeSlice) -> Flow:
    return time_slice.flow
