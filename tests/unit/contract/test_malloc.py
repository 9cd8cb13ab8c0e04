import os
import subprocess
import sys
import threading
import time

import pytest

from xla_contract import malloc
from xla_contract.malloc import LARGE_BYTES, IdleTrimmer

PROGRAM = """
import ctypes, sys
from xla_contract import malloc
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
    program = "import xla_client; from xla_contract import malloc; print(malloc._is_tuned)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


class Released:
    """Counts releases, and knows how many transfers had ended before each."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.happened = threading.Event()

    def __call__(self) -> None:
        self.times.append(time.monotonic())
        self.happened.set()


def test_memory_is_given_back_once_after_the_last_large_transfer() -> None:
    released = Released()
    trimmer = IdleTrimmer(released, lambda: 0, idle_seconds=0.2)
    for _ in range(4):
        trimmer.transferred(LARGE_BYTES)
        last = time.monotonic()
        time.sleep(0.05)
    assert released.happened.wait(10)
    time.sleep(0.4)
    (at,) = released.times
    assert at - last >= 0.15
    released.happened.clear()
    trimmer.transferred(LARGE_BYTES)
    assert released.happened.wait(10)
    assert len(released.times) == 2
    trimmer.close()


def test_what_is_let_go_later_is_given_back_too() -> None:
    released = Released()
    free = [5 * LARGE_BYTES]
    trimmer = IdleTrimmer(released, lambda: free[0], idle_seconds=0.05)
    trimmer.transferred(LARGE_BYTES)
    assert released.happened.wait(10)
    time.sleep(0.2)
    # What the library calls free stays free when its pages have gone back.
    assert len(released.times) == 1
    for now_free in (LARGE_BYTES, 2 * LARGE_BYTES):
        free[0] = now_free
        time.sleep(0.2)
    trimmer.close()
    assert len(released.times) == 2


def test_small_transfers_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", started.append)
    IdleTrimmer(Released()).transferred(LARGE_BYTES - 1)
    assert not started


@pytest.mark.skipif(malloc._glibc() is None, reason="needs glibc")
def test_the_library_says_what_is_free() -> None:
    assert 0 < malloc.free_bytes() < 1 << 40


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
