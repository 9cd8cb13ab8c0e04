"""Modules of the corpora are made once in a session of tests, and kernels compiled once."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.corpus.kept import DIRECTORY_VARIABLE, kept
from tests.kept_kernels import kept_kernels
from tests.unit.codegen.kernel_ir.kernels import kernel_of
from xla_server.codegen import kernel as kernels


def test_what_is_kept_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"module %d" % len(made))
        return made[-1]

    assert [kept("group/one", make) for _ in range(3)] == [b"module 0"] * 3
    assert kept("group/other", make) == b"module 1"
    monkeypatch.delenv(DIRECTORY_VARIABLE)
    assert kept("group/one", make) == b"module 2"


def test_others_wait_for_the_process_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    others: list[Future[bytes]] = []

    def make() -> bytes:
        others.append(pool.submit(kept, "one", lambda: b"made again"))
        with pytest.raises(TimeoutError):
            others[0].result(0.05)
        return b"module"

    with ThreadPoolExecutor() as pool:
        assert kept("one", make) == others[0].result() == b"module"


def test_what_is_compiled_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    kernel = kernel_of()
    code = kept_kernels().get(kernel).byte_size
    with monkeypatch.context() as patch:
        patch.delattr(kernels, "kernel_object")
        assert kept_kernels().get(kernel).byte_size == code
        monkeypatch.delenv(DIRECTORY_VARIABLE)
        with pytest.raises(kernels.KernelError):
            kept_kernels().get(kernel)
