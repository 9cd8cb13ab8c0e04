"""Chunks of shared loops: each is executed once, and mostly by the same thread in the next loop."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fault.plain import until
from xla_server.codegen.kernel import Kernels
from xla_server.execution.cancellation_flag import FLAG_WORDS, HELPED
from xla_server.runtime import threads
from xla_server.runtime.native import (
    atomic_add,
    callable_at,
    callee,
    foreign,
    pause,
    read,
    wall_nanoseconds,
    write,
)
from xla_server.runtime.threads import KernelThreads, _divide, _run_chunks, run_loop
from xla_server.target.machine import Machine

SLOT = threads._HEADER_WORDS
CANCELLED = np.zeros(FLAG_WORDS, np.int64)
"""The flag of an execution that is not cancelled."""

FOREVER = 1 << 60


def _record(log: int, start: int, stop: int) -> None:
    """Append a call's range to the log, whose first word counts them; called like a kernel."""
    number = atomic_add(log, 0, 1)
    write(log, 1 + 2 * number, start)
    write(log, 2 + 2 * number, stop)


_usleep = foreign("usleep", 1)


@callee  # type: ignore[untyped-decorator]
def _meet(log: int) -> None:
    """Wait for the other chunk of two, so that two threads have one each."""
    atomic_add(log, 0, 1)
    while read(log, 0) < 2:
        pause()


def _spun(log: int, start: int, stop: int) -> None:
    """Compute for two milliseconds; called like a kernel."""
    _meet(log)
    end = wall_nanoseconds() + 2_000_000
    while wall_nanoseconds() < end:
        pause()


def _slept(log: int, start: int, stop: int) -> None:
    """Sleep for as long; called like a kernel."""
    _meet(log)
    _usleep((2_000,))


def _divided(tasks: int) -> None:
    _divide(tasks, SLOT)


def _taken(tasks: int, thread: int, count: int) -> None:
    _run_chunks(tasks, SLOT, thread, count)


def _run(tasks: int, kernel: int, log: int, items: int, chunk: int, flag: int) -> None:
    run_loop(tasks, kernel, log, items, chunk, flag)


def _ranges(log: np.ndarray) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in log[1 : 1 + 2 * log[0]].reshape(-1, 2)]


class _Loop:
    """One loop in a table of tasks, which threads of these numbers execute in turns."""

    def __init__(self, kernels: Kernels, items: int, chunk: int, count: int) -> None:
        self._tasks = np.zeros(SLOT + threads._SLOT_WORDS, np.int64)
        self._tasks[threads._HELPERS] = count - 1
        self._log = np.zeros(1 + 2 * (-(-items // chunk)), np.int64)
        self._take: Callable[..., None] = callable_at(kernels.native(_taken), 3)
        slot = self._tasks[SLOT:]
        slot[threads._FUNCTION] = kernels.native(_record)
        slot[threads._BUFFERS] = self._log.ctypes.data
        slot[threads._WORK_ITEMS], slot[threads._CHUNK] = items, chunk
        slot[threads._CANCELLED] = CANCELLED.ctypes.data
        callable_at(kernels.native(_divided), 1)(self._tasks.ctypes.data)
        slot[threads._HAS_CHUNKS] = 1

    def take(self, thread: int, count: int) -> list[tuple[int, int]]:
        """Return the ranges of the chunks that a thread executes, at most so many."""
        self._log[0] = 0
        self._take(self._tasks.ctypes.data, thread, count)
        return _ranges(self._log)

    @property
    def has_chunks(self) -> bool:
        """Return whether chunks may be left."""
        return bool(self._tasks[SLOT + threads._HAS_CHUNKS])


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(machine=Machine.host())


@settings(deadline=None)
@given(
    items=st.integers(1, 200),
    chunk=st.integers(1, 40),
    count=st.integers(1, 60),
    turns=st.lists(st.tuples(st.integers(0, 59), st.integers(1, 5)), max_size=30),
)
def test_each_item_is_executed_once_whichever_threads_come(
    kernels: Kernels, items: int, chunk: int, count: int, turns: list[tuple[int, int]]
) -> None:
    loop = _Loop(kernels, items, chunk, count)
    ranges = [each for thread, most in turns for each in loop.take(thread, most)]
    ranges += loop.take(0, items + 1)
    covered = [item for start, stop in ranges for item in range(start, stop)]
    assert sorted(covered) == list(range(items))
    assert not loop.has_chunks
    assert loop.take(1, items) == []


def test_a_thread_has_a_part_of_its_own_and_helps_others_from_their_back(kernels: Kernels) -> None:
    loop = _Loop(kernels, items=58, chunk=5, count=3)
    starts = [[start for start, _ in loop.take(thread, 3)] for thread in (2, 0, 1)]
    assert starts == [[40, 45, 50], [0, 5, 10], [20, 25, 30]]
    assert loop.has_chunks
    assert loop.take(0, 9) == [(15, 20), (35, 40), (55, 58)]


def test_a_late_thread_still_has_most_of_its_part(kernels: Kernels) -> None:
    """Loops after each other, with a helper that comes when a fifth is done or a third."""
    found = []
    for head in (4, 7):
        loop = _Loop(kernels, items=20, chunk=1, count=2)
        taken = loop.take(0, head)
        for _ in range(10):
            taken += loop.take(0, 1)
            loop.take(1, 1)
        found.append({start for start, _ in taken})
    assert len(found[0] & found[1]) >= 12


def test_few_chunks_are_parts_that_several_threads_begin_with(kernels: Kernels) -> None:
    loop = _Loop(kernels, items=20, chunk=10, count=60)
    assert [loop.take(thread, 1) for thread in (59, 4)] == [[(10, 20)], [(0, 10)]]


class _Shared:
    """Loops that a pool's helpers share."""

    def __init__(self, kernels: Kernels, pool: KernelThreads) -> None:
        self._pool = pool
        self._kernel = kernels.native(_record)
        self._call = callable_at(kernels.native(_run), 6)
        pool.prepare()
        pool.start()

    def run(self, chunks: int) -> list[tuple[int, int]]:
        """Return the ranges of a loop of so many chunks."""
        log = np.zeros(1 + 2 * chunks, np.int64)
        self.call(self._kernel, log, chunks)
        return sorted(_ranges(log))

    def call(self, kernel: int, log: np.ndarray, chunks: int) -> int:
        """Execute a loop; return the nanoseconds that helpers are said to have spent on it."""
        flag = np.zeros(FLAG_WORDS, np.int64)
        tasks, buffers = self._pool.tasks, log.ctypes.data
        self._call(tasks, kernel, buffers, chunks, 1, flag.ctypes.data)
        return int(flag[HELPED])

    def processor_nanoseconds(self) -> int:
        """Return the processor time of the first helper."""
        (ident,) = [thread.ident for thread in self._pool._threads[:1]]
        assert ident is not None
        return time.clock_gettime_ns(time.pthread_getcpuclockid(ident))

    @property
    def sleeps(self) -> bool:
        """Return whether a helper sleeps that no loop has woken since."""
        return bool(self._pool._tasks[threads._SLEEPS])

    @property
    def switches(self) -> list[int]:
        """Return how often each helper went to sleep."""
        status = [
            Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
            for thread in self._pool._threads
        ]
        return [int(line.split()[1]) for each in status for line in each if line[:9] == "voluntary"]


@pytest.fixture
def pools(kernels: Kernels) -> Iterator[Callable[[int, int], _Shared]]:
    made: list[KernelThreads] = []

    def pool(count: int, polls: int) -> _Shared:
        made.append(KernelThreads(kernels, count, polls))
        return _Shared(kernels, made[-1])

    yield pool
    for each in made:
        each.close()


def test_helpers_without_polls_sleep_after_each_loop(
    pools: Callable[[int, int], _Shared],
) -> None:
    shared = pools(3, 0)
    for _ in range(5):
        until(lambda: shared.sleeps)
        assert shared.run(9) == [(n, n + 1) for n in range(9)]


def test_a_helper_that_polls_is_not_woken_for_the_next_loop(
    pools: Callable[[int, int], _Shared],
) -> None:
    shared = pools(2, FOREVER)
    until(lambda: shared.sleeps)
    shared.run(2)
    before = shared.switches
    for _ in range(100):
        assert shared.run(9) == [(n, n + 1) for n in range(9)]
    assert shared.switches == before
    assert not shared.sleeps


def test_helpers_beyond_the_parts_of_the_last_loop_do_not_poll(
    pools: Callable[[int, int], _Shared],
) -> None:
    shared = pools(4, FOREVER)
    until(lambda: shared.sleeps)
    shared.run(2)
    until(lambda: shared.sleeps)


@pytest.mark.parametrize("kernel", [_spun, _slept])
def test_the_processor_time_of_helpers_is_that_of_the_run(
    pools: Callable[[int, int], _Shared],
    kernels: Kernels,
    kernel: Callable[[int, int, int], None],
) -> None:
    """A helper that sleeps in a kernel, as in one that waits, spends next to nothing."""
    shared, address = pools(2, 0), kernels.native(kernel)
    before, spent = shared.processor_nanoseconds(), 0
    while spent == 0:
        spent += shared.call(address, np.zeros(1, np.int64), 2)
    assert spent <= shared.processor_nanoseconds() - before


def test_a_loop_without_helpers_has_no_time_of_theirs(
    pools: Callable[[int, int], _Shared], kernels: Kernels
) -> None:
    shared = pools(1, 0)
    assert shared.call(kernels.native(_record), np.zeros(19, np.int64), 9) == 0
