"""Helper threads that share the work items of kernels, in native code without the GIL.

The task table is memory that callers and helpers share. A caller with a large loop takes a free
slot of the table, writes its loop to it, wakes the helpers that sleep and executes chunks of the
loop itself. A free helper takes chunks of the slot with the fewest helpers, so concurrent
executions share them. A helper that the system preempts delays only the chunk that it executes.

A loop has as many parts as threads. Each thread begins with a part of its own, so that in loops
over the same arrays its elements are in its core's cache. Helpers poll for a while before they
sleep, since many programs are loops that take less time than a thread takes to wake.
"""

import contextlib
import functools
import threading

import numpy as np

from xla_contract.errors import ResourceExhaustedError
from xla_host.aligned import aligned_empty
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel import Kernels
from xla_server.execution.cancellation_flag import HELPED, STOP
from xla_server.execution.start_thread import start_thread
from xla_server.runtime.native import (
    atomic_add,
    call_kernel,
    callable_at,
    callee,
    foreign,
    pause,
    quotient,
    read,
    thread_nanoseconds,
    wall_nanoseconds,
    write,
)
from xla_server.runtime.rounding import flush_subnormals
from xla_server.target.loop_tuning import HelperThreads

SLOTS = 32
"""Number of slots: of loops that are shared at the same time."""

_LINE = 8
"""Words of a cache line."""

_MAX_PARTS = 48
"""Most parts of a loop; with more threads, several begin with the same one."""

_HAS_CHUNKS, _FUNCTION, _BUFFERS, _WORK_ITEMS, _CHUNK, _CANCELLED, _PARTS, _PART_CHUNKS = range(8)
_CALLERS, _INSIDE, _CLAIMED = _LINE, _LINE + 1, 2 * _LINE
_SLOT_WORDS = (2 + _MAX_PARTS) * _LINE
"""Words of a slot: 1 while chunks may be left, the loop, its number of parts and chunks of a part.
In a line of their own are the callers that want the slot, of which the first has it, and the
helpers inside. Each part has a line from _CLAIMED on, whose first word counts the claimed chunks.
Threads that write a line of another's wait for it, up to a microsecond in a virtual machine.
"""

_AT_BACK = 1 << 32
"""A chunk claimed from the back of a part, in the part's word; one from its front counts 1."""

_HEADER_WORDS = 32
"""Words of the table before its slots."""

_STAY = 16
"""Chunks of one loop that a helper executes before it chooses a slot again."""

_LONG_VISIT = 1 << 16
"""Nanoseconds of one visit of a slot from which the thread's own clock is read, which costs a
hundredth of that: in a shorter one the system hardly gives the core to another thread."""

_MUTEX, _CONDITION, _STOP, _HELPERS, _SLEEPS, _POLLS, _WANTED = 0, 8, 24, 25, 26, 27, 28
"""Words of the table: pthread mutex and condition (64, 128 bytes), stop flag, helper count, 1 if a
helper may sleep, polls before it does, and parts of the last loop: helpers from there on do not
poll."""

_word, _set_word = MEMORY["peek_i64"], MEMORY["poke_i64"]
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
        slot = _free_slot(tasks)
    if slot < 0:
        start = 0
        while start < work_items and _is_to_stop(cancelled) == 0:
            stop = min(start + chunk, work_items)
            call_kernel(function, buffers, start, stop)
            start = stop
        return
    _set_word(tasks, slot + _FUNCTION, function)
    _set_word(tasks, slot + _BUFFERS, buffers)
    _set_word(tasks, slot + _WORK_ITEMS, work_items)
    _set_word(tasks, slot + _CHUNK, chunk)
    _set_word(tasks, slot + _CANCELLED, cancelled)
    _divide(tasks, slot)
    write(tasks, slot + _HAS_CHUNKS, 1)
    if read(tasks, _SLEEPS) != 0:
        _wake_helpers(tasks)
    # One chunk more than there can be, so that it finds that none is left.
    _run_chunks(tasks, slot, 0, work_items + 1)
    # A helper inside executes its last chunk, or still reads the slot.
    polls = read(tasks, _POLLS)
    while read(tasks, slot + _INSIDE) > 0:
        polls -= 1
        if polls > 0:
            pause()
        else:
            _sched_yield(())
    atomic_add(tasks, slot + _CALLERS, -1)


@callee  # type: ignore[untyped-decorator]
def _free_slot(tasks: int) -> int:
    """Return a slot that no other caller has, now the caller's own; -1 if all are in use."""
    for number in range(SLOTS):
        slot = _HEADER_WORDS + number * _SLOT_WORDS
        if read(tasks, slot + _CALLERS) == 0:
            if atomic_add(tasks, slot + _CALLERS, 1) == 0:
                return slot
            atomic_add(tasks, slot + _CALLERS, -1)
    return -1


@callee  # type: ignore[untyped-decorator]
def _divide(tasks: int, slot: int) -> None:
    """Divide a slot's loop into parts of equally many chunks, one for each thread if it can."""
    chunk = _word(tasks, slot + _CHUNK)
    chunks = quotient(_word(tasks, slot + _WORK_ITEMS) + chunk - 1, chunk)
    parts = min(read(tasks, _HELPERS) + 1, _MAX_PARTS, chunks)
    _set_word(tasks, slot + _PARTS, parts)
    _set_word(tasks, slot + _PART_CHUNKS, quotient(chunks + parts - 1, parts))
    for part in range(parts):
        _set_word(tasks, slot + _CLAIMED + part * _LINE, 0)
    if read(tasks, _WANTED) != parts:
        write(tasks, _WANTED, parts)


@callee  # type: ignore[untyped-decorator]
def _run_chunks(tasks: int, slot: int, thread: int, count: int) -> None:
    """Execute chunks of a slot's loop until none are left, `count` at most.

    They are those of the thread's own part from the front, and then those of other parts from the
    back: a thread that comes late still has most of its part.
    """
    function, buffers = _word(tasks, slot + _FUNCTION), _word(tasks, slot + _BUFFERS)
    work_items, chunk = _word(tasks, slot + _WORK_ITEMS), _word(tasks, slot + _CHUNK)
    parts, part_chunks = _word(tasks, slot + _PARTS), _word(tasks, slot + _PART_CHUNKS)
    cancelled = _word(tasks, slot + _CANCELLED)
    own = thread - quotient(thread, parts) * parts
    part = own
    for _ in range(parts):
        number = 0
        while number >= 0:
            number = _claim_chunk(tasks, slot + _CLAIMED + part * _LINE, part_chunks, part == own)
            start = (part * part_chunks + number) * chunk
            # The last parts may have fewer chunks.
            if number >= 0 and start < work_items:
                # A helper does not wait as `watch_i64` does on WAIT: other executions need it.
                if read(cancelled, 0) != STOP:
                    call_kernel(function, buffers, start, min(start + chunk, work_items))
                count -= 1
                if count == 0:
                    return
        part = part + 1 if part + 1 < parts else 0
    if read(tasks, slot + _HAS_CHUNKS) != 0:
        write(tasks, slot + _HAS_CHUNKS, 0)


@callee  # type: ignore[untyped-decorator]
def _claim_chunk(tasks: int, word: int, chunks: int, is_front: bool) -> int:
    """Return the number of a chunk of a part, now the caller's own; -1 if none is left."""
    claimed = read(tasks, word)
    # To read costs less than to add, where others read as well.
    if claimed - claimed // _AT_BACK * (_AT_BACK - 1) < chunks:
        claimed = atomic_add(tasks, word, 1 if is_front else _AT_BACK)
    back = claimed // _AT_BACK
    front = claimed - back * _AT_BACK
    if front + back >= chunks:
        return -1
    return int(front if is_front else chunks - 1 - back)


@callee  # type: ignore[untyped-decorator]
def _slot_with_fewest_helpers(tasks: int) -> int:
    """Return the slot with work left and the fewest helpers; -1 if no slot has work."""
    found, fewest = -1, SLOTS * _SLOT_WORDS
    for number in range(SLOTS):
        slot = _HEADER_WORDS + number * _SLOT_WORDS
        if read(tasks, slot + _HAS_CHUNKS) != 0 and read(tasks, slot + _INSIDE) < fewest:
            found, fewest = slot, read(tasks, slot + _INSIDE)
    return found


@callee  # type: ignore[untyped-decorator]
def _wake_helpers(tasks: int) -> None:
    """Wake all helpers that sleep."""
    _lock((tasks + 8 * _MUTEX,))
    write(tasks, _SLEEPS, 0)
    _wake((tasks + 8 * _CONDITION,))
    _unlock((tasks + 8 * _MUTEX,))


@callee  # type: ignore[untyped-decorator]
def _sleep(tasks: int) -> None:
    """Sleep until a caller wakes the helpers, unless there is work or they are to stop."""
    _lock((tasks + 8 * _MUTEX,))
    # A caller shows its loop before it reads this word, so one of the two sees the other.
    write(tasks, _SLEEPS, 1)
    if read(tasks, _STOP) == 0 and _slot_with_fewest_helpers(tasks) < 0:
        _wait((tasks + 8 * _CONDITION, tasks + 8 * _MUTEX))
    _unlock((tasks + 8 * _MUTEX,))


def _help(tasks: int, thread: int) -> None:
    """Execute chunks of the table's loops until its stop flag is set.

    The processor time is added to that of the run, behind its cancellation flag. A short visit of a
    slot counts with its wall time. The time of a long one follows from two clocks, which advance
    together between `read_at`, when both were read, and its begin: the helper polls meanwhile.
    """
    flush_subnormals()
    polls = 0
    read_at, processor = wall_nanoseconds(), thread_nanoseconds()
    while read(tasks, _STOP) == 0:
        slot = _slot_with_fewest_helpers(tasks)
        if slot < 0 and polls > 0:
            polls -= 1
            pause()
            continue
        if slot < 0:
            _sleep(tasks)
            read_at, processor = wall_nanoseconds(), thread_nanoseconds()
        else:
            atomic_add(tasks, slot + _INSIDE, 1)
            # The caller waits for a helper inside, so what the slot has now stays.
            if read(tasks, slot + _HAS_CHUNKS) != 0:
                cancelled = _word(tasks, slot + _CANCELLED)
                begun = wall_nanoseconds()
                # _STAY chunks at most: other executions may have begun loops since.
                _run_chunks(tasks, slot, thread, _STAY)
                ended = wall_nanoseconds()
                spent = ended - begun
                if spent >= _LONG_VISIT:
                    before, processor = processor + begun - read_at, thread_nanoseconds()
                    read_at, spent = ended, min(spent, max(processor - before, 0))
                # Before it leaves the slot, after which the run may end.
                atomic_add(cancelled, HELPED, spent)
            atomic_add(tasks, slot + _INSIDE, -1)
        polls = read(tasks, _POLLS) if thread < read(tasks, _WANTED) else 0


def _stop(tasks: int) -> None:
    write(tasks, _STOP, 1)
    write(tasks, _HELPERS, 0)
    _wake_helpers(tasks)


class KernelThreads:
    """A pool of `count` threads, the caller's own included; by default one for each core.

    The helpers, `count` - 1, start with the first program.
    """

    def __init__(
        self, kernels: Kernels, count: int | None = None, polls: int | None = None
    ) -> None:
        self.count = kernels.machine.cores if count is None else count
        self._kernels = kernels
        # All zeros is the static initialiser of pthread mutexes and condition variables on Linux.
        self._tasks = aligned_empty((_HEADER_WORDS + SLOTS * _SLOT_WORDS,), np.int64)
        self._tasks.fill(0)
        self._tasks[_POLLS] = HelperThreads().polls if polls is None else polls
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
                    work = functools.partial(self._work, n + 1)
                    self._threads.append(start_thread(work, f"kernels-{n}"))
            self._tasks[_HELPERS] = len(self._threads)

    def close(self) -> None:
        """End the helpers. Their callers finish the loops that are running."""
        with self._starting:
            if not self._threads:
                return
            callable_at(self._kernels.native(_stop), 1)(self.tasks)
            for thread in self._threads:
                thread.join()

    def _work(self, number: int) -> None:
        callable_at(self._kernels.native(_help), 2)(self.tasks, number)
