"""Compiled kernels on disk."""

import os
import subprocess
import sys

import pytest

from tests.in_threads import in_threads
from tests.processors import HOST, MACHINES
from tests.unit.codegen.kernel_ir.kernels import SUM
from xla_contract.errors import InvalidArgumentError
from xla_server.codegen import kernel
from xla_server.codegen.compiler import kernel_cache
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.kernel import Kernels

RUN = """
import ctypes, sys
from pathlib import Path
from tests.unit.codegen.kernel_ir.kernels import SUM
from xla_server.codegen import kernel
from xla_server.codegen.compiler.kernel_cache import KernelCache

compiled = []
original = kernel.kernel_object
kernel.kernel_object = lambda source, machine: compiled.append(source) or original(source, machine)
found = kernel.Kernels(KernelCache(Path(sys.argv[1]))).get(SUM)
place, none = ctypes.c_int64(0), (ctypes.c_int64 * 2)()
table = (ctypes.c_int64 * 1)(ctypes.addressof(place))
call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
call(found.address)(ctypes.addressof(none), ctypes.addressof(none), ctypes.addressof(table), 40, 2)
print(len(compiled), place.value)
"""


def _processes(directory, count):
    """Return the output of so many concurrent processes that run the kernel."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(directory)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    return [process.communicate(timeout=300)[0].split() for process in started]


def _files(directory):
    return sorted(directory.iterdir())


def test_a_fresh_process_loads_what_another_compiled(tmp_path):
    directory = tmp_path / "made" / "kernels"
    assert _processes(directory, 1) == [["1", "42"]]
    assert len(_files(directory)) == 1
    assert directory.stat().st_mode & 0o777 == 0o700
    assert _processes(directory, 2) == [["0", "42"]] * 2


def test_processes_that_compile_the_same_at_once(tmp_path):
    found = _processes(tmp_path, 2)
    assert [result for _, result in found] == ["42", "42"]
    assert len(_files(tmp_path)) == 1


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:-1], lambda data: data + b"0", lambda data: data[::-1]],
)
def test_a_damaged_file_is_removed_and_compiled_again(tmp_path, damage, monkeypatch):
    Kernels(KernelCache(tmp_path)).get(SUM)
    (path,) = _files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert KernelCache(tmp_path).get(kernel.cache_key(kernel.symbol_of(SUM.key), HOST)) is None
    assert _files(tmp_path) == []
    Kernels(KernelCache(tmp_path)).get(SUM)
    assert path.read_bytes() == whole
    monkeypatch.setattr(kernel, "kernel_object", None)
    assert Kernels(KernelCache(tmp_path)).get(SUM).address


def test_code_for_one_processor_is_not_taken_by_another(tmp_path):
    for machine in MACHINES.values():
        Kernels(KernelCache(tmp_path), machine)._kept("symbol", machine.name.encode)
    for machine in MACHINES.values():
        assert (
            Kernels(KernelCache(tmp_path), machine)._kept("symbol", bytes).decode() == machine.name
        )


def test_code_of_another_version_is_not_found(tmp_path, monkeypatch):
    KernelCache(tmp_path).put("symbol", b"code")
    assert KernelCache(tmp_path).get("symbol") == b"code"
    assert KernelCache(tmp_path).get("other") is None
    monkeypatch.setattr(kernel_cache, "fingerprint", lambda: b"another")
    assert KernelCache(tmp_path).get("symbol") is None


def test_threads_that_write_and_read_the_same(tmp_path):
    code = bytes(range(256)) * 64
    seen = set()

    def work(_):
        cache = KernelCache(tmp_path)
        for _ in range(50):
            cache.put("symbol", code)
            seen.add(cache.get("symbol"))

    in_threads(work, range(4))
    assert seen == {code}
    assert len(_files(tmp_path)) == 1


def test_the_least_recently_used_go_first(tmp_path):
    cache = KernelCache(tmp_path, max_bytes=8000)
    for number in range(6):
        cache.put(f"symbol{number}", bytes(1000))
    for age, path in enumerate(_files(tmp_path)):
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.get("symbol2") is not None
    for number in range(6, 12):
        cache.put(f"symbol{number}", bytes(1000))
    assert sum(path.stat().st_size for path in _files(tmp_path)) <= 8000
    kept = [number for number in range(12) if cache.get(f"symbol{number}") is not None]
    assert 2 in kept
    assert kept[-6:] == [6, 7, 8, 9, 10, 11]


def test_a_look_ahead_removes_what_is_too_much(tmp_path):
    cache = KernelCache(tmp_path)
    for number in range(6):
        cache.put(f"symbol{number}", bytes(1000))
    KernelCache(tmp_path, max_bytes=3500).tidy()
    assert 0 < sum(path.stat().st_size for path in _files(tmp_path)) <= 3500


def test_files_of_other_programs_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    cache = KernelCache(tmp_path, max_bytes=1)
    cache.put("symbol", b"code")
    assert _files(tmp_path) == [tmp_path / "notes.txt"]


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_directory_others_may_write_into_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(InvalidArgumentError, match="no other user may write"):
        KernelCache(tmp_path)


def test_a_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(InvalidArgumentError, match="belong to the user"):
        KernelCache(tmp_path)


def test_files_of_another_user_and_what_is_no_file_are_not_read(tmp_path, monkeypatch):
    cache = KernelCache(tmp_path)
    cache.put("symbol", b"code")
    (path,) = _files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        assert cache.get("symbol") is None
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get("symbol") is None
    path.unlink()
    os.mkfifo(path)
    assert cache.get("symbol") is None


def test_a_disk_that_takes_nothing_is_said_once_and_costs_nothing_else(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    cache = KernelCache(tmp_path / "file" / "kernels")
    assert len(caplog.records) == 1
    cache.put("symbol", b"code")
    cache.put("symbol", b"code")
    assert cache.get("symbol") is None
    assert len(caplog.records) == 2
