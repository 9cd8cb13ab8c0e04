"""Helper threads that share the work items of kernels, in native code without the GIL.

The task table is memory that callers and helpers share. A caller with a large loop takes a free
slot of the table, writes its loop to it, wakes the helpers and executes chunks of the loop itself.
A free helper takes chunks of the slot with the fewest helpers, so concurrent executions share them.
A helper that the system preempts delays only the chunk that it executes.
"""

import contextlib
import threading

import numpy as np

from xla_contract.errors import ResourceExhaustedError
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel import Kernels
from xla_server.execution.cancellation_flag import STOP
from xla_server.execution.start_thread import start_thread
from xla_server.runtime.native import (
    atomic_add,
    call_kernel,
    callable_at,
    callee,
    foreign,
    read,
    write,
)
from xla_server.runtime.rounding import flush_subnormals

SLOTS = 32
_SLOT_WORDS = 16
"""Number of slots, loops shared at a time, and words of each: two cache lines."""

_STATE, _FUNCTION, _BUFFERS, _WORK_ITEMS, _CHUNK, _NEXT, _DONE, _INSIDE, _CANCELLED = range(9)
_HEADER_WORDS = 32
"""Words of the table before its slots."""

_STAY = 16
"""Chunks of one loop that a helper executes before it chooses a slot again."""

_MUTEX, _CONDITION, _STOP, _HELPERS = 0, 8, 24, 25
"""Words of the table: pthread mutex and condition (64, 128 bytes), stop flag, helper count."""

_is_to_stop = MEMORY["watch_i64"]
_lock = foreign("pthread_mutex_lock", 1)
_unlock = foreign("pthread_mutex_unlock", 1)
_wait = foreign("pthread_cond_wait", 2)
_wake = foreign("pthread_cond_broadcast", 1)
_sched_yield = foreign("sched_yield", 0)


@callee  # type: ignore[untyped-decorator]
def run_loop(
    tasks: int, function: int, buffers: int, work_items: int, chunk: int, cancelled: int
) -> None:
    """Execute all work items of a kernel, shared with the helpers if a slot is free.

    Once the cancellation flag is set, chunks that have not begun are skipped.
    """
    slot = -1
    if chunk < work_items and tasks != 0 and read(tasks, _HELPERS) > 0:
        _lock((tasks + 8 * _MUTEX,))
        for number in range(SLOTS):
            candidate = _HEADER_WORDS + number * _SLOT_WORDS
            if read(tasks, candidate + _STATE) == 0:
                slot = candidate
                break
        if slot >= 0:
            write(tasks, slot + _FUNCTION, function)
            write(tasks, slot + _BUFFERS, buffers)
            write(tasks, slot + _WORK_ITEMS, work_items)
            write(tasks, slot + _CHUNK, chunk)
            write(tasks, slot + _NEXT, 0)
            write(tasks, slot + _DONE, 0)
            write(tasks, slot + _CANCELLED, cancelled)
            write(tasks, slot + _STATE, 1)
            _wake((tasks + 8 * _CONDITION,))
        _unlock((tasks + 8 * _MUTEX,))
    if slot < 0:
        start = 0
        while start < work_items and _is_to_stop(cancelled) == 0:
            stop = min(start + chunk, work_items)
            call_kernel(function, buffers, start, stop)
            start = stop
        return
    _take_chunks(tasks, slot, work_items)
    while read(tasks, slot + _DONE) < work_items:
        _sched_yield(())
    # A late helper may still read the slot, so the slot is freed when no helper is inside.
    _lock((tasks + 8 * _MUTEX,))
    write(tasks, slot + _STATE, 2)
    _unlock((tasks + 8 * _MUTEX,))
    while read(tasks, slot + _INSIDE) > 0:
        _sched_yield(())
    write(tasks, slot + _STATE, 0)


@callee  # type: ignore[untyped-decorator]
def _take_chunks(tasks: int, slot: int, count: int) -> None:
    """Execute chunks of a slot's loop until none are left, `count` at most."""
    function, buffers = read(tasks, slot + _FUNCTION), read(tasks, slot + _BUFFERS)
    work_items, chunk = read(tasks, slot + _WORK_ITEMS), read(tasks, slot + _CHUNK)
    cancelled = read(tasks, slot + _CANCELLED)
    for _ in range(count):
        start = atomic_add(tasks, slot + _NEXT, chunk)
        if start >= work_items:
            return
        stop = min(start + chunk, work_items)
        # A helper does not wait as `watch_i64` does on WAIT: other executions need it.
        if read(cancelled, 0) != STOP:
            call_kernel(function, buffers, start, stop)
        atomic_add(tasks, slot + _DONE, stop - start)


@callee  # type: ignore[untyped-decorator]
def _slot_with_fewest_helpers(tasks: int) -> int:
    """Return the slot with work left and the fewest helpers; -1 if no slot has work."""
    found, fewest = -1, SLOTS * _SLOT_WORDS
    for number in range(SLOTS):
        slot = _HEADER_WORDS + number * _SLOT_WORDS
        if (
            read(tasks, slot + _STATE) == 1
            and read(tasks, slot + _INSIDE) < fewest
            and read(tasks, slot + _NEXT) < read(tasks, slot + _WORK_ITEMS)
        ):
            found, fewest = slot, read(tasks, slot + _INSIDE)
    return found


def _help(tasks: int) -> None:
    """Execute chunks of the table's loops until its stop flag is set."""
    flush_subnormals()
    _lock((tasks + 8 * _MUTEX,))
    while read(tasks, _STOP) == 0:
        found = _slot_with_fewest_helpers(tasks)
        if found < 0:
            _wait((tasks + 8 * _CONDITION, tasks + 8 * _MUTEX))
            continue
        atomic_add(tasks, found + _INSIDE, 1)
        _unlock((tasks + 8 * _MUTEX,))
        # _STAY chunks at most: other executions may have begun loops since.
        _take_chunks(tasks, found, _STAY)
        atomic_add(tasks, found + _INSIDE, -1)
        _lock((tasks + 8 * _MUTEX,))
    _unlock((tasks + 8 * _MUTEX,))


def _stop(tasks: int) -> None:
    _lock((tasks + 8 * _MUTEX,))
    write(tasks, _STOP, 1)
    write(tasks, _HELPERS, 0)
    _wake((tasks + 8 * _CONDITION,))
    _unlock((tasks + 8 * _MUTEX,))


class KernelThreads:
    """A pool of `count` threads, the caller's own included; by default one for each core.

    The helpers, `count` - 1, start with the first program.
    """

    def __init__(self, kernels: Kernels, count: int | None = None) -> None:
        self.count = kernels.machine.cores if count is None else count
        self._kernels = kernels
        # All zeros is the static initialiser of pthread mutexes and condition variables on Linux.
        self._tasks = np.zeros(_HEADER_WORDS + SLOTS * _SLOT_WORDS, np.int64)
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()

    @property
    def tasks(self) -> int:
        """The address of the task table, through which native code shares loops."""
        return int(self._tasks.ctypes.data)

    def prepare(self) -> None:
        """Compile the helpers' code, for which the first program waits otherwise."""
        self._kernels.native(_help)

    def start(self) -> None:
        """Start the helper threads unless they have started."""
        with self._starting:
            if self._threads or self.count < 2:
                return
            # With fewer of them, loops take longer.
            with contextlib.suppress(ResourceExhaustedError):
                for n in range(self.count - 1):
                    self._threads.append(start_thread(self._work, f"kernels-{n}"))
            self._tasks[_HELPERS] = len(self._threads)

    def close(self) -> None:
        """End the helpers. Their callers finish the loops that are running."""
        with self._starting:
            if not self._threads:
                return
            callable_at(self._kernels.native(_stop), 1)(self.tasks)
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        callable_at(self._kernels.native(_help), 1)(self.tasks)
