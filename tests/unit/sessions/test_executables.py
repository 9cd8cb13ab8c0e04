import threading
from types import SimpleNamespace

import pytest

from xla_contract.errors import CancelledError, InvalidArgumentError, ResourceExhaustedError
from xla_server.evaluator.cancellation import Cancellation
from xla_server.sessions.executables import ExecutableTable
from xla_server.sessions.handles import HandleFactory


def _table(max_executables: int = 10, max_idle: int = 10) -> ExecutableTable:
    return ExecutableTable(
        HandleFactory(), max_executables=max_executables, max_handles=100, max_idle=max_idle
    )


def _acquire(table: ExecutableTable, key: bytes, compile_program=SimpleNamespace):
    return table.acquire(key, compile_program, Cancellation())


def test_equal_programs_are_compiled_once_and_counted():
    table = _table()
    first, second = _acquire(table, b"a"), _acquire(table, b"a")
    assert (first.cache_hit, second.cache_hit) == (False, True)
    handles = [table.keep(first), table.keep(second)]
    assert table.get(handles[0]).executable is table.get(handles[1]).executable
    assert len(table) == 1
    table.remove(handles[0])
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        table.get(handles[0])
    assert table.get(handles[1])
    table.remove(handles[1])
    assert len(table) == 0


def test_unused_executables_are_kept_for_a_while_the_oldest_going_first():
    table = _table(max_idle=2)
    for key in (b"a", b"b", b"c"):
        table.release(_acquire(table, key))
    hits = {key: _acquire(table, key).cache_hit for key in (b"a", b"b", b"c")}
    assert hits == {b"a": False, b"b": True, b"c": True}


def test_the_limit_counts_what_is_in_use():
    table = _table(max_executables=1)
    table.release(_acquire(table, b"idle"))
    handle = table.keep(_acquire(table, b"a"))
    with pytest.raises(ResourceExhaustedError, match=r"at most 1 executables.*1 in use") as caught:
        _acquire(table, b"b")
    assert "Unregister" in caught.value.hint
    table.remove(handle)
    _acquire(table, b"b")


def test_a_failed_compilation_is_forgotten():
    table = _table()

    def fail():
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError):
        _acquire(table, b"a", fail)
    assert len(table) == 0
    assert not _acquire(table, b"a").cache_hit


def test_those_who_come_during_a_compilation_wait_for_it_or_give_up():
    table = _table()
    compiling, finish = threading.Event(), threading.Event()

    def compile_slowly():
        compiling.set()
        finish.wait(10)
        return SimpleNamespace()

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
