"""The life of a server process, as far as it can be seen from inside."""

import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fault.plain import until
from xla_server.app.serving import lifecycle

_TEXT = """
import gc, os, signal, sys
from xla_server.app.serving import lifecycle as run
from xla_server.app.options.settings import Settings

def announced(server, backend, metrics_address):
    assert gc.get_freeze_count() > 10_000
    os.kill(os.getpid(), signal.SIGTERM)

class Recorded(run._Preparation):
    def __init__(self, *arguments, only_loads):
        super().__init__(*arguments, only_loads=only_loads)
        print("loads" if only_loads else "prepares", flush=True)

run._announce = announced
run._Preparation = Recorded
prepare = sys.argv[1] == "prepares"
run.run_until_signalled(
    Settings(platform="interpreter", listen="127.0.0.1:0", prepare=prepare)
)
print("gone")
"""


@pytest.mark.parametrize("work", ["loads", "prepares"])
def test_what_is_loaded_at_the_start_is_no_work_for_the_collector(work: str) -> None:
    command = [sys.executable, "-c", _TEXT, work]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == f"{work}\ngone\n"


class _Backend:
    """A platform that notes whether it may prepare more than it needs to be loaded."""

    def __init__(self) -> None:
        self.prepared: list[bool] = []

    def prepare(self, is_over: Callable[[], bool]) -> bool:
        self.prepared.append(not is_over())
        return True


@pytest.mark.parametrize(("only_loads", "prepared"), [(True, [False]), (False, [False, True])])
def test_what_programs_share_is_prepared_unless_it_is_turned_off(
    only_loads: bool, prepared: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gc.freeze", lambda: None)
    backend: Any = _Backend()
    preparation = lifecycle._Preparation(backend, Any, only_loads=only_loads)  # type: ignore[arg-type]
    until(preparation.has_ended)
    assert backend.prepared == prepared


_RECORDED = """
import contextlib, os, pathlib, signal, sys
from xla_server.app.cli import main
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import Settings
from xla_server.app.platforms import create_backend
from xla_server.app.serving import lifecycle
from xla_server.app.serving.distribution import joined_world

read = set()
plain = Settings.__getattribute__

def recorded(self, name):
    read.add(name)
    return plain(self, name)

Settings.__getattribute__ = recorded
lifecycle._announce = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
secret = pathlib.Path("secret")
secret.write_text("s" * 32)
secret.chmod(0o600)
sys.argv = ["xla-server", "serve", "--platform", "interpreter", "--listen", "127.0.0.1:0"]
sys.argv += ["--jwt-secret-file", "secret", "--tls-self-signed", "--state-dir", "."]
with contextlib.suppress(SystemExit):
    main()
for platform in ("cpu", "cuda"):
    # There may be no GPU.
    with contextlib.suppress(ConfigurationError):
        create_backend(Settings(platform=platform, compilation_cache_dir=""))
with contextlib.suppress(ConfigurationError):
    joined_world(Settings(distributed="mpi"))
print(sorted(set(Settings.model_fields) - read))
"""


def test_there_is_no_option_that_nothing_reads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RECORDED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.stdout == "[]\n", ended.stderr


def test_a_server_whose_ready_line_has_nowhere_to_go_serves_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sys.stdout", Full())
    server: Any = SimpleNamespace(address="here:1", addresses=["here:1"])
    backend: Any = SimpleNamespace(platform="cpu", devices=())
    lifecycle._announce(server, backend, "")
    assert sys.stdout is None
    ends: list[int] = []
    monkeypatch.setattr("os._exit", ends.append)
    lifecycle._leave()
    assert ends == [0]
    assert "ready line cannot be written to standard output: [Errno 28] No space" in caplog.text
