"""A local server, started and stopped in a process of its own."""

import importlib.metadata
import io
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import xla_client as xc
from xla_client import local
from xla_client.local import Local
from xla_client.local_options import LocalOptions
from xla_contract import server_extra
from xla_contract.errors import UnavailableError
from xla_server.app.options.settings import Settings


def flags(*arguments: Any, **options: Any) -> list[str]:
    return Local(*arguments, **options)._command[5:]


def test_options_become_flags() -> None:
    assert Local()._command[:5] == [*local._CHILD, "serve"]
    assert flags("interpreter", 3) == [
        "--listen",
        "127.0.0.1:0",
        "--platform",
        "interpreter",
        "--devices",
        "3",
        # There is no other client to keep a share for.
        "--identity-share",
        "1",
        "--connection-share",
        "1",
    ]
    assert flags(max_message_bytes=2**20, insecure=True, prepare=False, dump_dir=None)[10:] == [
        "--max-message-bytes",
        "1048576",
        "--insecure",
        "--no-prepare",
    ]
    # Another address is reported too.
    assert flags(listen="unix:/x").count("--listen") == 1


def test_the_options_are_those_of_the_server() -> None:
    # A local server is one process.
    own = {"platform", "devices", "distributed", "fast_collectives", "shared_window_bytes"}
    assert set(LocalOptions.__annotations__) == set(Settings.model_fields) - own


def test_a_misspelt_option_is_a_type_error_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match=r"'platfrm'; did you mean 'platform'\?"):
        Local(platfrm="cpu")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'feed_itemz'; did you mean 'feed_items'\?"):
        Local(feed_itemz=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'zzz'; `xla-server serve --help` lists them"):
        Local(zzz=3)  # type: ignore[call-arg]


def test_a_local_server_says_what_and_where_it_is() -> None:
    own = Local("interpreter", 2)
    assert "--platform interpreter --devices 2" in repr(own)
    assert repr(own).endswith("; not running)")


def test_the_modules_that_are_looked_for_are_those_of_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    needed = {
        re.split(r"[>=\[;]", each)[0].lower() for each in project["optional-dependencies"]["server"]
    } - {"zlib-ng"}  # The server does without.
    distributions = importlib.metadata.packages_distributions()
    found = {each.lower() for name in server_extra.MODULES for each in distributions[name]}
    assert found == needed
    assert f"'{project['name']}[server]'" in server_extra.INSTALL


def test_a_server_is_started_and_stopped_as_often_as_one_likes() -> None:
    own = Local(platform="interpreter", devices=2, timeout=30)
    with pytest.raises(UnavailableError, match="must be started, got none running"):
        own.target  # noqa: B018
    own.stop()
    with own as client:
        assert own.start() is client
        assert own.target == client.target
        assert len(client.devices()) == 2
        process = own._process
        assert process is not None
    assert process.returncode == 0
    with pytest.raises(UnavailableError, match="got none running"):
        own.target  # noqa: B018
    own.stop()
    with pytest.raises(xc.UnavailableError, match="closed"):
        client.describe()


class Started:
    """A local server whose process is another program."""

    def __init__(self, program: str) -> None:
        self.local = Local()
        self.local._command = [sys.executable, "-c", program]

    def fails(self) -> UnavailableError:
        with pytest.raises(UnavailableError) as caught:
            self.local.start()
        assert self.local._process is self.local._client is self.local._log is None
        assert caught.value.op == "Local"
        return caught.value


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("", "b''"),
        ("print('no json')", r"b'no json\n'"),
        ("print('[1]')", r"b'[1]\n'"),
        ("""print('{"other": 1}')""", """b'{"other": 1}\\n'"""),
    ],
)
def test_a_process_that_does_not_say_where_it_listens(line: str, got: str) -> None:
    program = f"import sys; sys.stderr.write('x' * 5000 + 'the reason'); {line}"
    message = Started(program).fails().message
    assert f"must say where it listens, got {got} and exit code" in message
    # The end of its log, and no more.
    assert message.endswith("x" * 100 + "the reason")
    assert len(message) < local._LOG_TAIL + 300


def test_a_server_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "START_TIMEOUT", 0.2)
    message = Started("import signal; signal.pause()").fails().message
    assert "got b'' and exit code -9" in message


def test_a_server_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "STOP_TIMEOUT", 0.2)
    # The process ignores SIGTERM; there is no listener at its address.
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        """print('{"listening": "unix:/nowhere"}', flush=True); signal.pause()"""
    )
    monkeypatch.setattr(
        local, "connect", lambda target, **_: xc.connect(target, connect_timeout=0.1)
    )
    started = Started(program)
    processes: list[subprocess.Popen[bytes]] = []
    original = subprocess.Popen

    def popen(*arguments: Any, **named: Any) -> Any:
        processes.append(original(*arguments, **named))
        return processes[-1]

    monkeypatch.setattr(local.subprocess, "Popen", popen)
    with pytest.raises(UnavailableError, match="unix:/nowhere"):
        started.local.start()
    assert processes[0].returncode == -9
    assert started.local._process is None
    assert processes[0].stdin is not None
    assert processes[0].stdin.closed
    assert isinstance(processes[0].stdout, io.IOBase)
    assert processes[0].stdout.closed
    with pytest.raises(ProcessLookupError):
        os.kill(processes[0].pid, 0)
