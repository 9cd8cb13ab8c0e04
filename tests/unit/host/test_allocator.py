import contextlib
import os
import queue
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator

import pytest

from tests.fault.plain import until
from tests.unit.clock import Clock
from tests.unit.threads import no_threads
from xla_host import allocator as malloc
from xla_host.allocator import LARGE_BYTES, IdleTrimmer

PROGRAM = """
import ctypes, sys
from xla_host import allocator as malloc
calls = []
class Library:
    def __init__(self, refused): self.refused = refused
    def mallopt(self, name, value):
        calls.append((name, value))
        return 0 if value in self.refused else 1
if sys.argv[1] == "real":
    print(malloc.tune(), malloc.tune(), malloc._is_tuned)
else:
    malloc._glibc = lambda: None if sys.argv[1] == "none" else Library({int(sys.argv[1])})
    print(malloc.tune(), calls)
"""


def run(argument: str, **environment: str) -> str:
    command = [sys.executable, "-c", PROGRAM, argument]

    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return done.stdout.strip()


def test_an_environment_variable_turns_it_off() -> None:
    assert run("real", XLA_SERVICE_MALLOC_TUNING="0") == "False False False"
    on = run("real")
    assert on == ("True True True" if malloc._glibc() else "False False False")


def test_older_libraries_take_a_smaller_threshold_and_others_nothing() -> None:
    assert run("0", XLA_SERVICE_MALLOC_TUNING="") == (
        f"True [(-8, 1), (-1, {2**31 - 1}), (-3, {1 << 30})]"
    )
    assert run(str(1 << 30)).endswith(f"(-3, {1 << 30}), (-3, {32 << 20})]")
    assert run("none") == "False []"


def test_importing_the_client_changes_nothing() -> None:
    program = "import xla_client; from xla_host import allocator as malloc; print(malloc._is_tuned)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


class Process:
    """A process whose allocator keeps freed memory until `release`.

    A test's change takes effect when the trimmer looks, after it has looked at the state before.
    """

    def __init__(self) -> None:
        self.others = 40 * LARGE_BYTES
        """Memory that is none of the allocator's."""
        self.used = 9 * LARGE_BYTES
        self.kept = 0
        self.releases = 0
        self.looks = 0
        self.changes: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.during_release: Callable[[], None] = lambda: None
        self._is_releasing = False

    def resident(self) -> int:
        return self.others + self.used + self.kept

    def look(self) -> int:
        """Return the allocator's bytes in use; the trimmer asks for them after a release, too."""
        if not self._is_releasing:
            self.looks += 1
            with contextlib.suppress(queue.Empty):
                self.changes.get_nowait()()
        self._is_releasing = False
        return self.used

    def free(self, byte_size: int) -> None:
        self.used -= byte_size
        self.kept += byte_size

    def keep(self, byte_size: int) -> None:
        self.kept += byte_size

    def use(self, byte_size: int) -> None:
        self.used += byte_size

    def release(self) -> None:
        self.kept = 0
        self.releases += 1
        self._is_releasing = True
        self.during_release()
        self.during_release = lambda: None

    def settle(self) -> None:
        """Wait until all changes have been looked at, and what came of them."""
        until(self.changes.empty)
        looks = self.looks
        until(lambda: self.looks >= looks + 3)


@pytest.fixture
def process() -> Iterator[Process]:
    process = Process()
    trimmer = IdleTrimmer(process.release, process.look, process.resident, idle_seconds=0.02)
    trimmer.start()
    process.settle()
    assert process.releases == 0
    yield process
    trimmer.close()


def test_memory_is_given_back_once_after_the_last_large_transfer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, process = Clock(), Process()
    monkeypatch.setattr(malloc, "time", types.SimpleNamespace(monotonic=clock))
    trimmer = IdleTrimmer(process.release, process.look, process.resident, idle_seconds=0.02)
    for releases in range(2):
        for _ in range(3):
            trimmer.transferred(LARGE_BYTES)
            clock.now += 0.015
            process.settle()
        assert process.releases == releases
        clock.now += 0.01
        process.settle()
        assert process.releases == releases + 1
    trimmer.close()


def test_what_is_let_go_later_is_given_back_too(process: Process) -> None:
    for number in range(3):
        process.changes.put(lambda: process.free(LARGE_BYTES))
        process.settle()
        assert (process.kept, process.releases) == (0, number + 1)


def test_what_comes_and_goes_between_two_looks_is_given_back(process: Process) -> None:
    """The allocator has handed out as much as before, and as much is free."""
    process.changes.put(lambda: process.keep(2 * LARGE_BYTES))
    process.settle()
    assert (process.kept, process.releases) == (0, 1)


def test_memory_of_others_that_goes_hides_nothing(process: Process) -> None:
    process.changes.put(lambda: setattr(process, "others", 30 * LARGE_BYTES))
    process.settle()
    process.changes.put(lambda: process.free(LARGE_BYTES))
    process.settle()
    assert (process.kept, process.releases) == (0, 1)


def test_what_is_freed_during_a_release_is_given_back_by_the_next(process: Process) -> None:
    process.during_release = lambda: process.free(2 * LARGE_BYTES)
    process.changes.put(lambda: process.free(LARGE_BYTES))
    process.settle()
    assert (process.kept, process.releases) == (0, 2)


def test_nothing_is_given_back_for_little_or_for_what_is_in_use(process: Process) -> None:
    process.changes.put(lambda: process.free(LARGE_BYTES - 1))
    process.changes.put(lambda: process.use(5 * LARGE_BYTES))
    process.settle()
    assert process.releases == 0
    process.changes.put(lambda: process.keep(1))
    process.settle()
    assert process.releases == 1


def test_memory_is_given_back_once_there_is_a_thread_for_it() -> None:
    process = Process()
    trimmer = IdleTrimmer(process.release, process.look, process.resident, idle_seconds=0.02)
    with no_threads():
        trimmer.transferred(LARGE_BYTES)
    trimmer.transferred(LARGE_BYTES)
    until(lambda: process.releases > 0)
    trimmer.close()


def test_small_transfers_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", started.append)
    IdleTrimmer(lambda: None).transferred(LARGE_BYTES - 1)
    assert not started


MEASURED = """
from xla_host import allocator as malloc
malloc.tune()
def numbers(): return malloc.used_bytes() >> 20, malloc.anonymous_bytes() >> 20
large = [bytes([1]) * (1 << 13) for _ in range(1 << 13)]
pins = [bytes(1 << 10) for _ in range(1 << 10)]
before = numbers()
del large
between = numbers()
malloc.trim()
print(*before, *between, *numbers())
"""


@pytest.mark.skipif(malloc._glibc() is None, reason="needs glibc")
def test_what_is_used_and_what_is_resident_are_known() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True)
    used, resident, used_then, resident_then, used_now, resident_now = map(int, done.stdout.split())
    assert 60 < used - used_then < 70
    assert abs(resident_then - resident) < 5
    assert abs(used_now - used_then) < 5
    assert 60 < resident_then - resident_now < 70
    assert used < resident


class Heap:
    """A C library whose memory ends somewhere."""

    def __init__(self) -> None:
        self.end = 0
        self.trims = 0

    def sbrk(self, _: int) -> int:
        return self.end

    def malloc_trim(self, _: int) -> None:
        self.trims += 1


def test_what_is_free_goes_back_where_large_memory_lies_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heap = Heap()
    monkeypatch.setattr(malloc, "_glibc", lambda: heap)
    monkeypatch.setattr(malloc, "_is_tuned", True)

    def behind() -> str:
        heap.end += 1
        return "memory"

    assert malloc.allocated(malloc.LARGE_BYTES, lambda: "a hole") == "a hole"
    assert malloc.allocated(malloc.LARGE_BYTES - 1, behind) == "memory"
    assert heap.trims == 0
    assert malloc.allocated(malloc.LARGE_BYTES, behind) == "memory"
    assert heap.trims == 1
    monkeypatch.setattr(malloc, "_is_tuned", False)
    malloc.allocated(malloc.LARGE_BYTES, behind)
    assert heap.trims == 1


def test_the_library_says_where_its_memory_ends() -> None:
    library = malloc._glibc()
    if library is not None:
        assert library.sbrk(0) > 1 << 20


class Blocks:
    """A C library that records its calls; no block is there for the second `malloc`."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.advised: list[tuple[int, int]] = []
        self.freed: list[int | None] = []

    def malloc(self, size: int) -> int | None:
        self.asked.append(size)
        return None if len(self.asked) == 2 else 1 << 30 | 16

    def madvise(self, at: int, size: int, _: int) -> int:
        self.advised.append((at, size))
        return -1

    def free(self, block: int | None) -> None:
        self.freed.append(block)


def test_pages_of_free_blocks_are_made_resident_a_piece_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Blocks()
    monkeypatch.setattr(malloc, "_glibc", lambda: library)
    monkeypatch.setattr(malloc, "_is_tuned", True)
    size = (5 << 20) + 100
    malloc.make_resident(size, 2)
    assert library.asked == [size, size]
    assert library.freed == [1 << 30 | 16, None]
    page = os.sysconf("SC_PAGE_SIZE")
    at = (1 << 30) + page
    for start, length in library.advised:
        assert start == at
        assert 0 < length <= 1 << 20
        at += length
    assert at == (1 << 30 | 16) + size


def test_blocks_smaller_than_a_page_are_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Blocks()
    monkeypatch.setattr(malloc, "_glibc", lambda: library)
    monkeypatch.setattr(malloc, "_is_tuned", True)
    malloc.make_resident(100, 1)
    assert not library.advised
    assert library.freed == [1 << 30 | 16]


def test_nothing_is_made_resident_that_the_allocator_would_not_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Blocks()
    monkeypatch.setattr(malloc, "_glibc", lambda: library)
    monkeypatch.setattr(malloc, "_is_tuned", False)
    malloc.make_resident(1 << 20, 2)
    assert not library.asked
