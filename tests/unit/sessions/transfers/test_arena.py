import contextlib
import errno
import fcntl
import os
import threading

import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.threads import no_threads
from tests.unit.waiting import waits
from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
)
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares
from xla_server.sessions.transfers import arena as arena_module
from xla_server.sessions.transfers import arena_pool
from xla_server.sessions.transfers.arena import Arena
from xla_server.sessions.transfers.arena_pool import ArenaPool
from xla_server.sessions.transfers.free_list import PAGE

MIB = 1 << 20


class Account:
    used = 0

    def grow(self, size):
        self.used += size

    def shrink(self, size):
        self.used -= size


@pytest.fixture
def account():
    return Account()


@pytest.fixture
def arena(account):
    made = Arena(16 * MIB, account.grow, account.shrink)
    yield made
    made.close()


def pages(arena):
    descriptor = arena.duplicate()
    try:
        return os.fstat(descriptor).st_blocks * 512
    finally:
        os.close(descriptor)


def test_only_what_is_allocated_has_memory(arena, account):
    assert pages(arena) == account.used == 0
    first, size = arena.allocate(MIB + 1)
    assert (first, size) == (0, MIB + PAGE)
    assert pages(arena) == account.used == arena.backed_bytes == size
    arena.free(first)
    assert arena.allocate(PAGE)[0] == 0
    assert pages(arena) == account.used == size


def test_no_client_can_change_the_size_or_the_seals(arena):
    descriptor = arena.duplicate()
    for size in (0, PAGE, 32 * MIB):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    os.close(descriptor)


def test_wrong_sizes_and_offsets_are_refused(arena):
    for size in (0, -1, -(2**62)):
        with pytest.raises(InvalidArgumentError, match=f"got {size}"):
            arena.allocate(size)
    with pytest.raises(ResourceExhaustedError):
        arena.allocate(2**62)
    offset, size = arena.allocate(10)
    with (
        pytest.raises(InvalidArgumentError, match=f"{size + 1} bytes for the {size}"),
        arena.using(offset, size + 1),
    ):
        pass
    for wrong in (offset + 1, PAGE, -1):
        with pytest.raises(NotFoundError), arena.using(wrong, 1):
            pass
        with pytest.raises(NotFoundError):
            arena.free(wrong)


def test_a_part_in_use_is_free_only_afterwards(arena):
    offset, size = arena.allocate(MIB)
    with arena.using(offset, size) as memory, arena.using(offset, size):
        arena.free(offset)
        with pytest.raises(NotFoundError):
            arena.free(offset)
        with pytest.raises(NotFoundError), arena.using(offset, 1):
            pass
        assert arena.allocate(MIB)[0] != offset
        memory[:] = 1
    assert arena.allocate(MIB)[0] == offset


def test_memory_lasts_as_long_as_a_use_of_it(arena, account):
    offset, size = arena.allocate(MIB)
    with arena.using(offset, size) as memory:
        arena.close()
        assert account.used == 0
        memory[:] = 7
        assert memory.sum(dtype=np.int64) == 7 * size
    for call in (lambda: arena.allocate(1), lambda: arena.free(offset), arena.duplicate):
        with pytest.raises(FailedPreconditionError):
            call()
    arena.close()


def test_a_machine_without_memory_refuses_and_goes_on(arena, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with monkeypatch.context() as patch:
        patch.setattr(arena_module, "_call", none)
        with pytest.raises(ResourceExhaustedError, match="Cannot allocate memory"):
            arena.allocate(MIB)
    assert arena.part_count == 0
    assert arena.allocate(2 * MIB)[0] == 0


def test_an_older_kernel_backs_memory_in_its_own_way(arena, monkeypatch):
    def unknown(*_):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(arena_module, "_call", unknown)
    assert arena.allocate(MIB) == (0, MIB)
    assert pages(arena) == MIB


def test_trimming_takes_memory_of_idle_arenas_alone(arena, account):
    offset, _ = arena.allocate(4 * MIB)
    arena.trim(MIB)
    assert pages(arena) == account.used == 4 * MIB
    arena.free(offset)
    arena.trim(MIB)
    assert pages(arena) == account.used == MIB
    arena.allocate(2 * MIB)
    assert pages(arena) == account.used == 2 * MIB


def test_an_arena_is_kept_ahead_once_there_is_a_thread_for_it():
    pool = ArenaPool(max_bytes=64 * MIB, session_bytes=16 * MIB, warm_bytes=MIB)
    with no_threads():
        first = pool.acquire()
    assert not pool.is_warming
    second = pool.acquire()
    until(lambda: pool.used_bytes == MIB and not pool.is_warming)
    pool.release(first)
    pool.release(second)
    pool.close()


def test_the_next_arena_is_warm_and_unused():
    pool = ArenaPool(max_bytes=64 * MIB, session_bytes=16 * MIB, warm_bytes=MIB)
    assert pool.used_bytes == 0
    first = pool.acquire()
    offset, size = first.allocate(2 * MIB)
    with first.using(offset, size) as memory:
        memory[:] = 255
    kept = first.duplicate()
    until(lambda: pool.used_bytes == 3 * MIB and not pool.is_warming)
    assert pool.lent_bytes == 2 * MIB
    pool.release(first)
    second = pool.acquire()
    assert second.backed_bytes == MIB
    offset, size = second.allocate(16 * MIB)
    with second.using(offset, size) as memory:
        assert not memory.any()
        # A client that kept the descriptor of one session sees nothing of the next.
        os.pwrite(kept, b"x" * MIB, 0)
        assert not memory.any()
    os.close(kept)
    pool.close()
    assert pool.used_bytes == pool.lent_bytes == len(pool) == 0


def test_all_arenas_together_stay_within_the_limit():
    pool = ArenaPool(max_bytes=8 * MIB, session_bytes=64 * MIB, warm_bytes=0)
    assert pool.session_bytes == 8 * MIB
    first, second = pool.acquire(), pool.acquire()
    first.allocate(5 * MIB)
    with pytest.raises(ResourceExhaustedError, match=f"{8 * MIB} bytes, got .* {5 * MIB} in use"):
        second.allocate(4 * MIB)
    assert second.part_count == 0
    first.free(0)
    # Memory that an idle arena only keeps is released for others.
    second.allocate(4 * MIB)
    assert pool.used_bytes == 4 * MIB
    pool.close()


def test_an_arena_that_is_being_made_ahead_gives_way_too(monkeypatch):
    populate, may_go_on = arena_module._populate, threading.Event()

    def slow(*arguments):
        if threading.current_thread().name == "arena warming":
            assert may_go_on.wait(100)
        populate(*arguments)

    monkeypatch.setattr(arena_module, "_populate", slow)
    pool = ArenaPool(max_bytes=4 * MIB, session_bytes=4 * MIB, warm_bytes=4 * MIB)
    arena = pool.acquire()
    until(lambda: pool.used_bytes == 4 * MIB)
    asking = threading.Thread(target=arena.allocate, args=(MIB,), daemon=True)
    asking.start()
    assert waits(asking)
    may_go_on.set()
    asking.join(100)
    assert (arena.part_count, pool.used_bytes) == (1, MIB)
    pool.close()


def test_one_arena_is_made_ahead_of_sessions_that_come_together(monkeypatch):
    made, make = [], ArenaPool._new

    def slow(pool):
        made.append(threading.current_thread().name)
        if made[-1] == "second":
            until(lambda: pool.used_bytes == MIB and not pool.is_warming)
        return make(pool)

    monkeypatch.setattr(ArenaPool, "_new", slow)
    pool = ArenaPool(max_bytes=64 * MIB, session_bytes=16 * MIB, warm_bytes=MIB)
    second = threading.Thread(target=pool.acquire, name="second", daemon=True)
    second.start()
    until(lambda: made)
    pool.acquire()
    second.join(100)
    assert sorted(made) == ["MainThread", "arena warming", "second"]
    pool.close()
    assert pool.used_bytes == len(pool) == 0


def test_who_finds_no_memory_for_an_arena_ahead_goes_without():
    pool = ArenaPool(max_bytes=4 * MIB, session_bytes=4 * MIB, warm_bytes=2 * MIB)
    first = pool.acquire()
    until(lambda: not pool.is_warming)
    # The one ahead gives way to what a session asks for.
    first.allocate(3 * MIB)
    assert pool.used_bytes == 3 * MIB
    second = pool.acquire()
    until(lambda: not pool.is_warming)
    assert pool.used_bytes == 3 * MIB
    second.allocate(MIB)
    third = pool.acquire()
    assert third.backed_bytes == 0
    pool.close()
    assert pool.used_bytes == 0


def test_idle_arenas_are_trimmed_after_a_while(monkeypatch):
    pool = ArenaPool(max_bytes=64 * MIB, session_bytes=16 * MIB, warm_bytes=MIB)
    arena = pool.acquire()
    offset, _ = arena.allocate(4 * MIB)
    arena.free(offset)
    pool.trim_idle()
    assert arena.backed_bytes == 4 * MIB
    monkeypatch.setattr(arena_pool, "IDLE_SECONDS", 0.0)
    pool.trim_idle()
    assert arena.backed_bytes == MIB
    pool.close()


def write(arena, offset, size):
    """Write as a client does, by a file descriptor."""
    descriptor = arena.duplicate()
    try:
        os.pwrite(descriptor, b"x" * size, offset)
    finally:
        os.close(descriptor)


def test_what_the_other_side_writes_counts_from_the_first_byte(arena, account):
    assert arena.backed_bytes == 0
    write(arena, 5 * MIB, 1)
    assert (arena.backed_bytes, account.used) == (PAGE, 0)
    write(arena, 6 * MIB, 2 * MIB)
    assert arena.backed_bytes == 2 * MIB + PAGE
    # Inside of what was allocated it has been counted; the rest went.
    offset, _ = arena.allocate(MIB)
    write(arena, offset, MIB)
    assert arena.backed_bytes == pages(arena) == account.used == MIB
    arena.close()
    assert arena.backed_bytes == account.used == 0


def test_what_the_other_side_writes_beyond_its_parts_is_taken_back(arena, account):
    arena.allocate(MIB)
    write(arena, 0, 4 * MIB)
    arena.scan_strays(drops=True)
    assert pages(arena) == arena.backed_bytes == account.used == MIB
    with arena.using(0, MIB) as memory:
        assert (memory == ord("x")).all()


def test_pages_without_an_allocation_count_against_the_limit_and_give_way():
    pool = ArenaPool(max_bytes=8 * MIB, session_bytes=64 * MIB, warm_bytes=0)
    first, second = pool.acquire(), pool.acquire()
    write(first, 0, 6 * MIB)
    assert pool.used_bytes == pool.lent_bytes == 6 * MIB
    second.allocate(4 * MIB)
    assert (pages(first), pool.used_bytes) == (0, 4 * MIB)
    # Nor do they stand in the way of the client's own parts.
    second.free(0)
    second.trim(0)
    write(second, 0, 6 * MIB)
    assert pool.used_bytes == 6 * MIB
    second.allocate(5 * MIB)
    assert (pages(second), pool.used_bytes) == (5 * MIB, 5 * MIB)
    second.free(0)
    second.trim(4 * MIB)
    write(first, 0, 6 * MIB)
    assert pool.used_bytes == 10 * MIB
    pool.trim_idle()
    assert pool.used_bytes == 4 * MIB
    pool.close()
    assert pool.used_bytes == 0


def test_an_arena_that_cannot_be_made_leaves_nothing(monkeypatch, account):
    before = _memory_files()
    monkeypatch.setattr(arena_module.mmap, "mmap", _refused)
    with pytest.raises(OSError, match="no"):
        Arena(MIB, account.grow, account.shrink)
    assert _memory_files() <= before


def _memory_files() -> set[str]:
    """The descriptors of memory that this process has open; those of others come and go."""
    links = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            links[name] = os.readlink(f"/proc/self/fd/{name}")
    return {name for name, link in links.items() if link.startswith("/memfd:")}


def _refused(*_):
    raise OSError("no")


GREEDY = [Caller("greedy", str(number)) for number in range(2)]
OTHER = Caller("other", "2")


def test_one_caller_leaves_memory_to_another():
    shares = CallerShares(identity=0.75, connection=0.5)
    pool = ArenaPool(max_bytes=16 * MIB, session_bytes=64 * MIB, warm_bytes=0, shares=shares)
    assert pool.session_bytes == 8 * MIB
    first, second = (pool.acquire(GREEDY[0]) for _ in range(2))
    first.allocate(6 * MIB)
    with pytest.raises(
        ResourceExhaustedError,
        match=f"a connection may have 0.5 of the {16 * MIB} bytes of shared memory .* got "
        f"{3 * MIB} more with {6 * MIB} in use and 0 of others",
    ):
        second.allocate(3 * MIB)
    second.allocate(2 * MIB)
    third = pool.acquire(GREEDY[1])
    with pytest.raises(ResourceExhaustedError, match=r"an identity may have 0.75 of"):
        third.allocate(5 * MIB)
    third.allocate(4 * MIB)
    fourth = pool.acquire(OTHER)
    fourth.allocate(2 * MIB)
    with pytest.raises(ResourceExhaustedError, match=r"a connection may have 0.5 of"):
        fourth.allocate(MIB)
    pool.release(third)
    fourth.allocate(2 * MIB)
    pool.close()
    again = ArenaPool(max_bytes=16 * MIB, session_bytes=64 * MIB, warm_bytes=0, shares=shares)
    again.acquire(GREEDY[0]).allocate(8 * MIB)
    again.close()


def test_idle_memory_gives_way_to_callers_within_their_shares_alone():
    shares = CallerShares(identity=0.5, connection=0.5)
    pool = ArenaPool(max_bytes=16 * MIB, session_bytes=64 * MIB, warm_bytes=0, shares=shares)
    idle, greedy = pool.acquire(OTHER), pool.acquire(GREEDY[0])
    idle.allocate(4 * MIB)
    idle.free(0)
    greedy.allocate(5 * MIB)
    with pytest.raises(ResourceExhaustedError, match=r"a connection may have 0.5 of|identity"):
        pool.acquire(GREEDY[1]).allocate(4 * MIB)
    assert (pages(idle), pool.used_bytes) == (4 * MIB, 9 * MIB)
    pool.acquire(GREEDY[1]).allocate(3 * MIB)
    assert (pages(idle), pool.used_bytes) == (0, 8 * MIB)
    pool.close()


def test_pages_without_an_allocation_count_for_their_caller():
    shares = CallerShares(connection=0.5)
    pool = ArenaPool(max_bytes=16 * MIB, session_bytes=64 * MIB, warm_bytes=0, shares=shares)
    first, second = (pool.acquire(GREEDY[0]) for _ in range(2))
    first.allocate(MIB)
    write(first, 0, 7 * MIB)
    # They give way to the caller's own parts, and are forgotten with their arena.
    second.allocate(4 * MIB)
    assert (pages(first), pool.used_bytes) == (MIB, 5 * MIB)
    write(first, 0, 7 * MIB)
    assert pool.used_bytes == 11 * MIB
    pool.release(first)
    second.allocate(4 * MIB)
    pool.close()
    assert pool.used_bytes == 0


def test_the_arena_made_ahead_counts_for_the_caller_that_has_it():
    shares = CallerShares(connection=0.5)
    pool = ArenaPool(max_bytes=16 * MIB, session_bytes=16 * MIB, warm_bytes=4 * MIB, shares=shares)
    for expected in (0, 4, 4, 0):
        arena = pool.acquire(GREEDY[0])
        assert arena.backed_bytes == expected * MIB
        until(lambda: not pool.is_warming)
    pool.close()
    assert pool.used_bytes == 0
