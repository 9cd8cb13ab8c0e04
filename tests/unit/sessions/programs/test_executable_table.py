"""Programs that handles name: shared by content, their modules counted, their code a cache."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fault.plain import until
from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnauthenticatedError,
)
from xla_contract.types.devices.sharding import REPLICATED
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.backends.compile_options import DEFAULTS
from xla_server.buffers.assignment import MemoryUse
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.checkpoints import checkpoint
from xla_server.passes.partitioning.signature import ShardedSignature
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.limits.shares.caller import LOCAL, Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares
from xla_server.sessions.programs.code_cache import CachedCode, CompiledProgram
from xla_server.sessions.programs.compile_request import WireProgram
from xla_server.sessions.programs.executable_table import (
    ExecutableCache,
    ExecutableTable,
    LoadedExecutable,
)
from xla_server.sessions.values.handles import HandleFactory

SIGNATURE = ProgramShape((), Shape.parse("f32[4]{0}"))


def _shared(
    max_executables: int = 10, max_idle: int = 10, max_idle_bytes: int = 100, **limits: Any
) -> ExecutableCache:
    return ExecutableCache(
        Limits(
            0,
            max_executables=max_executables,
            max_idle_executables=max_idle,
            max_idle_executable_bytes=max_idle_bytes,
            **limits,
        )
    )


def _of(kept_bytes: int, *, has_state: bool = False) -> Callable[[], Any]:
    executable: Any = SimpleNamespace(
        kept_bytes=kept_bytes,
        has_state=has_state,
        name="",
        work=None,
        program_shape=SIGNATURE,
        channel_ends=(frozenset(), frozenset()),
        memory=MemoryUse(0, 0, 16, 0),
    )
    return lambda: CompiledProgram(executable, ShardedSignature(SIGNATURE, (), REPLICATED))


def _program(key: bytes, data: bytes = b"") -> WireProgram:
    return WireProgram(data, SIGNATURE, DEFAULTS, key)


def _table(shared: ExecutableCache) -> ExecutableTable:
    return ExecutableTable(HandleFactory(), shared, max_handles=100)


_SMALL = _of(1)


def _acquire(
    table: ExecutableCache,
    key: bytes,
    compile_program: Callable[[], Any] = _SMALL,
    caller: Caller = LOCAL,
) -> LoadedExecutable:
    return table.acquire(_program(key), compile_program, Cancellation(), caller)


def _used(table: ExecutableCache, compiled: LoadedExecutable) -> int:
    """Return the number of compilations of a program that is called."""
    compilations: list[int] = []

    def compile_program() -> Any:
        compilations.append(1)
        return _SMALL()

    code, _ = table.begin_use(compiled, compile_program, Cancellation())
    table.end_use(code)
    return len(compilations)


def test_equal_programs_are_compiled_once_and_counted():
    shared = _shared()
    table = _table(shared)
    first, second = _acquire(shared, b"a"), _acquire(shared, b"a")
    assert (first.cache_hit, second.cache_hit) == (False, True)
    assert shared.compilations == 1
    assert shared.compile_seconds > 0
    handles = [table.keep(first), table.keep(second)]
    assert table.handles.get(handles[0]).shared is table.handles.get(handles[1]).shared
    assert (len(table), len(shared)) == (2, 1)
    table.remove(handles[0])
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        table.handles.get(handles[0])
    assert table.handles.get(handles[1])
    table.remove(handles[1])
    assert (len(table), len(shared)) == (0, 0)


def test_a_closed_table_frees_all():
    shared = _shared()
    table = _table(shared)
    table.keep(_acquire(shared, b"a"))
    table.close()
    assert len(shared) == 0
    with pytest.raises(UnauthenticatedError, match="must be open"):
        table.keep(_acquire(shared, b"a"))
    assert len(shared) == 0


def test_unused_executables_are_kept_for_a_while_the_oldest_going_first():
    table = _shared(max_idle=2)
    for key in (b"a", b"b", b"c"):
        table.release(_acquire(table, key))
    hits = {key: _acquire(table, key).cache_hit for key in (b"a", b"b", b"c")}
    assert hits == {b"a": False, b"b": True, b"c": True}


def test_unused_executables_are_kept_within_so_many_bytes() -> None:
    table = _shared(max_idle_bytes=100)
    for key, size in ((b"a", 60), (b"b", 40), (b"c", 30)):
        table.release(_acquire(table, key, _of(size)))
    assert [table.has(key) for key in (b"a", b"b", b"c")] == [False, True, True]
    # One in use counts no more, and one that is larger than all stays only as long as it is used.
    held = _acquire(table, b"b")
    table.release(_acquire(table, b"d", _of(70)))
    assert [table.has(key) for key in (b"c", b"d")] == [True, True]
    table.release(held)
    assert [table.has(key) for key in (b"b", b"c", b"d")] == [True, False, False]
    table.release(_acquire(table, b"e", _of(101)))
    assert not table.has(b"e")


def test_the_code_used_longest_ago_goes_and_is_compiled_again_when_called() -> None:
    table = _shared(max_executables=2)
    first, second = _acquire(table, b"a"), _acquire(table, b"b")
    assert _used(table, first) == 0
    third = _acquire(table, b"c")
    assert (len(table), table.code_count) == (3, 2)
    assert [table.has(key) for key in (b"a", b"b", b"c")] == [True, False, True]
    assert [_used(table, each) for each in (second, second, third, first)] == [1, 0, 0, 1]
    for each in (first, second, third):
        table.release(each)
    assert len(table) == table.code_count == 0


def test_code_is_kept_within_so_many_bytes() -> None:
    table = _shared(max_executable_bytes=100)
    held = [_acquire(table, key, _of(size)) for key, size in ((b"a", 60), (b"b", 30), (b"c", 20))]
    assert [table.has(key) for key in (b"a", b"b", b"c")] == [False, True, True]
    # One that is larger than all stays until another is compiled.
    held.append(_acquire(table, b"d", _of(200)))
    assert [table.has(key) for key in (b"b", b"c", b"d")] == [False, False, True]
    held.append(_acquire(table, b"e", _of(10)))
    assert [table.has(key) for key in (b"d", b"e")] == [False, True]
    for each in held:
        table.release(each)
    assert table._cache._bytes.used == 0


def test_code_in_use_stays_and_so_does_what_has_a_state() -> None:
    table = _shared(max_executables=2)
    running, random = _acquire(table, b"a"), _acquire(table, b"b", _of(1, has_state=True))
    code, _ = table.begin_use(running, _SMALL, Cancellation())
    # No more than executions use is kept beyond the limit.
    _acquire(table, b"c")
    assert [table.has(key) for key in (b"a", b"b", b"c")] == [True, True, True]
    table.end_use(code)
    other = _acquire(table, b"d", _of(1, has_state=True))
    assert [table.has(key) for key in (b"a", b"b", b"c", b"d")] == [False, True, False, True]
    assert [_used(table, each) for each in (random, other)] == [0, 0]
    with pytest.raises(ResourceExhaustedError, match="at most 2 programs, got one more with 2 who"):
        _acquire(table, b"e")
    table.release(other)
    _acquire(table, b"e")


def test_the_limit_counts_the_bytes_of_modules() -> None:
    table = _shared(max_program_bytes=10_200)

    def acquire(key: bytes) -> LoadedExecutable:
        return table.acquire(_program(key, bytes(1000)), _SMALL, Cancellation())

    held = acquire(b"a")
    # One more user of it takes nothing more.
    for key in (b"a", b"a"):
        acquire(key)
    table.release(acquire(b"b"))
    held = acquire(b"b")
    with pytest.raises(ResourceExhaustedError, match=r"of at most 10200 bytes.*10192 in") as caught:
        acquire(b"c")
    assert "Unregister" in caught.value.hint
    table.release(held)
    acquire(b"c")


def test_a_run_goes_on_with_a_program_that_was_freed() -> None:
    table = _shared(max_idle=0)
    compiled = _acquire(table, b"a")
    table.release(compiled)
    assert len(table) == table.code_count == 0
    assert _used(table, compiled) <= 1
    assert len(table) == table.code_count == 0


def test_a_compilation_that_fails_when_called_is_tried_again() -> None:
    table = _shared(max_executables=1)
    first = _acquire(table, b"a")
    _acquire(table, b"b")

    def fail() -> Any:
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError):
        table.begin_use(first, fail, Cancellation())
    assert [_used(table, first), _used(table, first)] == [1, 0]


def test_a_failed_compilation_is_forgotten():
    table = _shared()

    def fail():
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError):
        _acquire(table, b"a", fail)
    assert len(table) == 0
    assert not _acquire(table, b"a").cache_hit


def test_callers_during_a_compilation_wait_for_it_or_give_up():
    table = _shared()
    compiling, finish = threading.Event(), threading.Event()

    def compile_slowly():
        compiling.set()
        finish.wait(100)
        return _SMALL()

    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(_acquire(table, b"a", compile_slowly)), daemon=True
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    assert compiling.wait(100)
    impatient = Cancellation()
    threading.Timer(0.1, impatient.cancel).start()
    with pytest.raises(CancelledError):
        table.acquire(_program(b"a"), compile_slowly, impatient)
    finish.set()
    for thread in threads:
        thread.join(100)
    assert len({id(result.shared) for result in results}) == 1
    for result in results:
        table.release(result)
    assert len(table) == 0


@pytest.mark.parametrize("joins", ["no other", "while it compiles", "as it stops"])
def test_a_cancelled_compilation_stops_unless_others_wait_for_it(joins: str) -> None:
    table, cancellation = _shared(), Cancellation()
    results: list[LoadedExecutable] = []
    other = threading.Thread(target=lambda: results.append(_acquire(table, b"a")), daemon=True)

    def wait_for(code: CachedCode) -> None:
        other.start()
        until(lambda: code.uses == 2)

    def compile_program() -> Any:
        code = table._cache.get(b"a")
        assert code is not None
        checkpoint()
        cancellation.cancel()
        if joins == "while it compiles":
            wait_for(code)
        try:
            checkpoint()
        except CancelledError:
            if joins == "as it stops":
                wait_for(code)
            raise
        return _SMALL()

    if joins == "while it compiles":
        assert not table.acquire(_program(b"a"), compile_program, cancellation).cache_hit
    else:
        with pytest.raises(CancelledError, match="the caller gave up"):
            table.acquire(_program(b"a"), compile_program, cancellation)
    if joins != "no other":
        other.join(100)
        assert results[0].cache_hit == (joins == "while it compiles")
    assert table.code_count == len(table) == (joins != "no other")


def test_a_caller_cannot_take_the_share_of_others() -> None:
    shared = _shared(max_program_bytes=9 * 4096, max_idle=0, shares=CallerShares(0.875, 0.75))
    mine, same, other = Caller("ada", "1"), Caller("ada", "2"), Caller("eve", "3")

    def acquire(number: int, caller: Caller) -> LoadedExecutable:
        return _acquire(shared, bytes([number]), caller=caller)

    held = [acquire(number, mine) for number in range(6)]
    with pytest.raises(ResourceExhaustedError, match=r"a connection may have 0.75 .* 24576 in use"):
        acquire(6, mine)
    # A second handle on its own executable is free; one on another's counts for both.
    held.append(acquire(0, mine))
    held.append(acquire(0, same))
    held.append(acquire(6, same))
    with pytest.raises(ResourceExhaustedError, match=r"an identity may have 0.875 .* 28672 in use"):
        acquire(7, same)
    held.append(acquire(7, other))
    for each in held:
        shared.release(each)
    assert len(shared) == 0
    assert shared._bytes._used == {}


def test_a_caller_at_its_share_loses_its_own_code_and_never_that_of_others() -> None:
    shared = _shared(max_executables=8, shares=CallerShares(0.875, 0.75))
    mine, other = Caller("ada", "1"), Caller("eve", "3")
    first = _acquire(shared, b"other", caller=other)
    held = [_acquire(shared, bytes([number]), caller=mine) for number in range(20)]
    assert shared.has(b"other")
    # Three quarters of the seven that the other leaves.
    assert [shared.has(bytes([number])) for number in range(20)] == [False] * 15 + [True] * 5
    assert _used(shared, first) == 0
    for each in (first, *held):
        shared.release(each)
    assert shared._cache._count._used == shared._cache._bytes._used == {}
