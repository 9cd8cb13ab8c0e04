"""Every command line of tests answers `--help`."""

import runpy
import sys
from pathlib import Path

import pytest

from xla_server.app.serving import distribution

ROOT = Path(__file__).parents[3]
COMMANDS = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "tests").rglob("*.py")
    # Commands in tests/unit stand for those of others, with their options.
    if path.relative_to(ROOT).parts[1] != "unit"
    and not path.name.startswith("test_")
    and '\nif __name__ == "__main__":\n' in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_help_is_printed_and_nothing_done(
    command: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(command), "--help"])
    # Commands set these before they read their options.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    monkeypatch.setattr(distribution, "create_backend", distribution.create_backend)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / command), run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out.lower().startswith("usage: ")
