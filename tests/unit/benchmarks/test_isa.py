import os
import sys
from typing import Any

import pytest

from tests.benchmarks import ynnpack
from tests.benchmarks.isa import description, limit_products, limited, run_as_asked
from tests.processors import HOST
from xla_server.target.machine import Machine


def test_a_limited_machine_has_the_older_vectors_and_is_else_the_same() -> None:
    wide = Machine.avx512(has_vnni=True, cores=9)
    narrow = limited(wide, "avx2")
    assert (narrow.vector_set, narrow.vector_bytes, narrow.has_masks) == ("AVX2", 32, False)
    assert (narrow.name, narrow.cores) == (wide.name, 9)
    assert limited(Machine.avx2(), "avx2").vector_set == "AVX2"


def test_the_log_names_the_machine_and_what_xla_is_limited_to() -> None:
    line = description(Machine.avx512(cores=9), {})
    assert line == "machine: skylake-avx512, AVX-512 (64 bytes), 9 cores, L2 512 KiB"
    flags = {"XLA_FLAGS": "--xla_dump_to=x --xla_cpu_max_isa=AVX2"}
    end = ", XLA and YNNPACK with --xla_cpu_max_isa=AVX2"
    assert description(Machine.avx2(), flags).endswith(end)


def test_products_of_xla_are_limited_with_it() -> None:
    flags = ynnpack.supported()
    before = flags.value
    try:
        limit_products({})
        assert flags.value == before
        limit_products({"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"})
        assert ynnpack.supported().value == before & 0x7F
    finally:
        flags.value = before


def test_both_sides_are_limited_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []

    def begin(path: str, words: list[str], variables: dict[str, str]) -> None:
        begun.append((words, variables))
        raise SystemExit

    monkeypatch.setattr(os, "execvpe", begin)
    monkeypatch.setattr(sys, "argv", ["bench", "--isa", "avx2", "--count", "3"])
    with pytest.raises(SystemExit):
        run_as_asked("tests.benchmarks.sweep")
    ((words, variables),) = begun
    assert words[1:] == ["-m", "tests.benchmarks.sweep", "--count", "3"]
    assert variables["NUMBA_CPU_NAME"] == HOST.name
    assert variables["NUMBA_CPU_FEATURES"] == limited(HOST, "avx2").features
    assert "--xla_cpu_max_isa=AVX2" in variables["XLA_FLAGS"]


@pytest.mark.parametrize("words", [["--isa"], ["--isa", "mmx"]])
def test_other_names_are_refused(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    with pytest.raises(SystemExit, match="--isa takes one of avx2, got"):
        run_as_asked("tests.benchmarks")


def test_without_it_the_words_are_left_and_the_machine_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--count", "3"])
    assert run_as_asked("tests.benchmarks.sweep") == ["--count", "3"]
    assert capsys.readouterr().out == f"{description(HOST, os.environ)}\n"
