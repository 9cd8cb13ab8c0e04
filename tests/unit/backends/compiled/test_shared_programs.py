"""Programs that are equal up to names are compiled once."""

from typing import Any

import pytest

from xla_server.backends.compile_options import CompileOptions, DumpOptions
from xla_server.backends.compiled import backend
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.diagnostics.dump_directory import DumpDirectory
from xla_server.ir.text.parser import parse_module
from xla_server.passes.framework.selection import PassOptions

FIRST = """HloModule first
ENTRY e {
  x = f32[4] parameter(0)
  c = f32[4] constant({1, 2, 3, 4})
  ROOT r = f32[4] add(x, c)
}
"""
RENAMED = FIRST.replace("first", "second").replace("c =", "k =").replace("c)", "k)")
OTHER = FIRST.replace("3, 4", "3, 5")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the modules that were compiled."""
    names = []
    original = backend.compile_module

    def counted(module: Any, *given: Any, **named: Any) -> Any:
        names.append(module.name)
        return original(module, *given, **named)

    monkeypatch.setattr(backend, "compile_module", counted)
    return names


def _compile(platform: Cpu, text: str, **options: Any) -> Any:
    module = parse_module(text)
    return platform.compile(module, module.entry_program_shape, options=CompileOptions(**options))


def test_names_make_no_difference(compiled: list[str]) -> None:
    platform = Cpu(threads=1)
    kept = [_compile(platform, text) for text in (FIRST, RENAMED, FIRST)]
    assert compiled == ["first"]
    assert [executable.name for executable in kept] == ["first", "second", "first"]
    _compile(platform, OTHER)
    _compile(platform, RENAMED, passes=PassOptions(level=0))
    assert compiled == ["first", "first", "second"]


def test_nothing_is_kept_without_a_handle(compiled: list[str]) -> None:
    platform = Cpu(threads=1)
    for _ in range(2):
        _compile(platform, FIRST)
    assert compiled == ["first"] * 2


def test_what_writes_dumps_is_compiled_for_itself(compiled: list[str], tmp_path: Any) -> None:
    platform = Cpu(threads=1, dumps=DumpDirectory(tmp_path))
    kept = _compile(platform, FIRST)
    _compile(platform, RENAMED, dump=DumpOptions("there"))
    assert kept
    assert compiled == ["first", "second"]
