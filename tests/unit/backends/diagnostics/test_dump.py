"""Dumps that cannot be written, or would be too large, are no reason not to compile."""

from pathlib import Path

import numpy as np
import pytest

from xla_client import Builder
from xla_server.backends.compile_options import DumpFormat, DumpOptions
from xla_server.backends.diagnostics.dump import Dump, constant_bytes
from xla_server.backends.diagnostics.dump_files import DumpFiles, safe_name
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

TEXT_AND_PROTO = frozenset({DumpFormat.TEXT, DumpFormat.PROTO})


def module(constants: int = 4) -> HloModule:
    builder = Builder("constants")
    values = builder.constant(np.arange(constants, dtype=np.float32))
    return import_module(builder.build(values + values).proto)


def dump(directory: Path, **limits: int) -> Dump:
    options = DumpOptions("d", formats=TEXT_AND_PROTO)
    return Dump(DumpFiles(directory, **limits), options)


def written(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_module_is_written_in_the_formats_asked_for(tmp_path: Path) -> None:
    dump(tmp_path).optimised(module())
    assert {Path(name).suffix for name in written(tmp_path)} == {".txt", ".pb"}


def test_a_text_of_many_constants_is_left_out(tmp_path: Path) -> None:
    made = dump(tmp_path, max_bytes=10_000)
    large = module(5000)
    assert constant_bytes(large) == 20_000
    made.optimised(large)
    (text,) = written(tmp_path).values()
    assert text == b"// left out: it has 20000 bytes of constants\n"


def test_a_disk_that_is_full_ends_the_dump_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dump(tmp_path)
    tries = 0

    def full(name: str, data: str | bytes) -> None:
        nonlocal tries
        tries += 1
        raise OSError("No space left on device")

    monkeypatch.setattr(made._files, "write", full)
    for _ in range(3):
        made.write("one.txt", "text")
    assert tries == 1
    assert [record.message for record in caplog.records] == [
        "a dump cannot be written: No space left on device"
    ]
    assert written(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "safe"),
    [("a/../b", "a_.._b"), ("", "_"), ("x" * 200, "x" * 120), ("jit(f)", "jit_f_")],
)
def test_names_of_files_are_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe
