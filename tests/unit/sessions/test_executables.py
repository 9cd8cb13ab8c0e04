import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnauthenticatedError,
)
from xla_server.evaluator.cancellation import Cancellation
from xla_server.sessions.executables import ExecutableTable, SharedExecutables
from xla_server.sessions.handles import HandleFactory


def _shared(
    max_executables: int = 10, max_idle: int = 10, max_idle_bytes: int = 100
) -> SharedExecutables:
    return SharedExecutables(
        max_executables=max_executables, max_idle=max_idle, max_idle_bytes=max_idle_bytes
    )


def _of(kept_bytes: int) -> Callable[[], SimpleNamespace]:
    return lambda: SimpleNamespace(kept_bytes=kept_bytes)


def _table(shared: SharedExecutables) -> ExecutableTable:
    return ExecutableTable(HandleFactory(), shared, max_handles=100)


_SMALL = _of(1)


def _acquire(table: SharedExecutables, key: bytes, compile_program=_SMALL):
    return table.acquire(key, compile_program, Cancellation())


def test_equal_programs_are_compiled_once_and_counted():
    shared = _shared()
    table = _table(shared)
    first, second = _acquire(shared, b"a"), _acquire(shared, b"a")
    assert (first.cache_hit, second.cache_hit) == (False, True)
    handles = [table.keep(first), table.keep(second)]
    assert table.get(handles[0]).executable is table.get(handles[1]).executable
    assert (len(table), len(shared)) == (2, 1)
    table.remove(handles[0])
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        table.get(handles[0])
    assert table.get(handles[1])
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


def test_the_limit_counts_what_is_in_use():
    table = _shared(max_executables=1)
    table.release(_acquire(table, b"idle"))
    held = _acquire(table, b"a")
    with pytest.raises(ResourceExhaustedError, match=r"at most 1 executables.*1 in use") as caught:
        _acquire(table, b"b")
    assert "Unregister" in caught.value.hint
    table.release(held)
    _acquire(table, b"b")


def test_a_failed_compilation_is_forgotten():
    table = _shared()

    def fail():
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError):
        _acquire(table, b"a", fail)
    assert len(table) == 0
    assert not _acquire(table, b"a").cache_hit


def test_those_who_come_during_a_compilation_wait_for_it_or_give_up():
    table = _shared()
    compiling, finish = threading.Event(), threading.Event()

    def compile_slowly():
        compiling.set()
        finish.wait(10)
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
    assert compiling.wait(10)
    impatient = Cancellation()
    threading.Timer(0.1, impatient.cancel).start()
    with pytest.raises(CancelledError):
        table.acquire(b"a", compile_slowly, impatient)
    finish.set()
    for thread in threads:
        thread.join(10)
    assert len({id(result.executable) for result in results}) == 1
    for result in results:
        table.release(result)
    assert len(table) == 0
