import inspect
import threading
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.unit.threads import no_threads
from xla_server.app.commands import app
from xla_server.app.endings import EXIT_FAILED
from xla_server.app.options.settings import Settings, described
from xla_server.app.serving import lifecycle
from xla_server.app.serving import serve as serving
from xla_server.app.serving.serve import serve
from xla_server.execution.start_thread import start_thread
from xla_server.identity.tokens import digest_of, parse_tokens


def test_every_setting_is_a_flag():
    flags = set(inspect.signature(serve).parameters) - {"config"}
    assert flags == set(Settings.model_fields)


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("listen", "separate them by commas; by default 127.0.0.1:1685"),
        ("platform", "runs the programs; by default cpu"),
        ("short_threads", "short calls; by default 16"),
        ("grace_seconds", "to end after SIGTERM; by default 30"),
        ("session_device_bytes", "its connection's share of max-device-bytes; by default 0"),
        ("prepare", "the server is ready; by default yes"),
        # An empty default is a matter of the description.
        ("max_device_bytes", "; by default 1/2 of the memory"),
        ("dump_dir", "empty: requests are refused"),
        ("custom_calls", "separated by commas"),
    ],
)
def test_help_says_the_default_of_every_option(name: str, end: str):
    [option] = inspect.signature(serve).parameters[name].annotation.__metadata__
    assert option.help == described(name)
    assert option.help.endswith(end)


def test_a_token_is_printed_alone_if_its_line_goes_to_a_file(tmp_path: Path):
    file = tmp_path / "tokens"
    flags = ["--role", "viewer", "--append-to", str(file)]
    made = CliRunner().invoke(app, ["token", "alice", *flags])
    known = parse_tokens(file.read_bytes()).find(digest_of(made.stdout.strip()))
    assert known is not None
    assert known.name == "token:alice"
    again = CliRunner().invoke(app, ["token", "alice", "--role", "user", *flags[2:]])
    assert (again.exit_code, again.stdout) == (2, "")
    assert again.stderr.startswith(f"xla-server: {file}: line 2: all tokens of a name must have")


def test_a_server_that_may_start_no_threads_ends_with_a_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving.gc, "disable", lambda: None)
    monkeypatch.setattr(serving, "configure_logs", lambda level: None)
    monkeypatch.setattr(
        lifecycle, "run_until_signalled", lambda settings: start_thread(threading.Lock, "any")
    )
    with no_threads(), pytest.raises(typer.Exit) as ended:
        serve(listen="127.0.0.1:0", insecure=True, platform="interpreter")
    assert ended.value.exit_code == EXIT_FAILED
    line = "xla-server: the server must be able to start threads, got can't start new thread\n"
    assert capsys.readouterr().err == line
