from pathlib import Path

import pytest

from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import (
    ALL_DEVICES,
    ENVIRONMENT_PREFIX,
    Platform,
    Settings,
    incident_directory,
    load_settings,
)
from xla_server.app.serving.wiring import create_server
from xla_server.target.available import available_memory


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch, tmp_path):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"{ENVIRONMENT_PREFIX}{name.upper()}", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_flag_over_environment_over_file_over_default(tmp_path, monkeypatch):
    config = tmp_path / "server.toml"
    config.write_text("devices = 2\nfeed_items = 20\nmax_executables = 200\n")
    monkeypatch.setenv("XLA_SERVER_DEVICES", "3")
    monkeypatch.setenv("XLA_SERVER_FEED_ITEMS", "30")
    settings = load_settings({"devices": 4, "feed_items": None}, config)
    assert (settings.devices, settings.feed_items, settings.max_executables) == (4, 30, 200)
    assert settings.listen == ("127.0.0.1:1685",)
    assert settings.platform is Platform.CPU
    assert 0 < settings.max_device_bytes <= available_memory() // 2
    assert settings.max_resident_bytes == available_memory() * 9 // 10


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:0", "localhost:65535", "[::1]:1685", "[::]:0", "unix:/tmp/s", "0.0.0.0:1"]
)
def test_addresses_that_can_be_listened_on(listen):
    assert load_settings({"listen": listen}).listen == (listen,)


def test_several_addresses_come_from_every_source(tmp_path, monkeypatch):
    config = tmp_path / "server.toml"
    config.write_text("listen = ['127.0.0.1:1', 'unix:/tmp/s']\n")
    both = ("127.0.0.1:1", "unix:/tmp/s")
    assert load_settings({}, config).listen == both
    assert load_settings({"listen": ["127.0.0.1:1", "unix:/tmp/s"]}).listen == both
    assert load_settings({"listen": ["[::1]:2,127.0.0.1:1", "unix:/t"]}).listen == (
        "[::1]:2",
        "127.0.0.1:1",
        "unix:/t",
    )
    monkeypatch.setenv("XLA_SERVER_LISTEN", "127.0.0.1:1, unix:/tmp/s")
    assert load_settings({}).listen == both


@pytest.mark.parametrize(
    "listen",
    [
        *("", "1685", ":1685", "host", "host:", "h:x", "::1:5", "h:70000"),
        *("unix:", "unix://", "unix-abstract:", "127.0.0.1:1,", [], ["127.0.0.1:1", "x"]),
    ],
)
def test_other_addresses_are_refused(listen):
    with pytest.raises(ConfigurationError, match="listen"):
        load_settings({"listen": listen})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("devises = 2", "devises"),
        ("devices = 0", "devices"),
        ("metrics_listen = 'unix:/m'", "metrics_listen: must be HOST:PORT or"),
        ("metrics_listen = '9464'", "metrics_listen: must be HOST:PORT"),
        ("devices = 'many'", "many"),
        ("devices = '0'", "devices: must be at least 1, or all"),
        ("cuda_memory_fraction = 1.5", "cuda_memory_fraction"),
        ("platform = 'tpu'", "tpu"),
        ("devices =", "server.toml"),
    ],
)
def test_a_wrong_file_is_reported(tmp_path, text, words):
    config = tmp_path / "server.toml"
    config.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        load_settings({}, config)


@pytest.mark.parametrize(("text", "count"), [("'all'", ALL_DEVICES), ("'3'", 3), ("4", 4)])
def test_devices_are_a_number_or_all(tmp_path, text, count):
    config = tmp_path / "server.toml"
    config.write_text(f"devices = {text}")
    assert load_settings({}, config).devices == count


def test_custom_calls_are_modules_from_every_source(tmp_path, monkeypatch):
    config = tmp_path / "server.toml"
    config.write_text("custom_calls = ['ours.calls', 'theirs']\n")
    assert load_settings({}).custom_calls == ()
    assert load_settings({}, config).custom_calls == ("ours.calls", "theirs")
    monkeypatch.setenv("XLA_SERVER_CUSTOM_CALLS", "one, two.three")
    assert load_settings({}, config).custom_calls == ("one", "two.three")
    assert load_settings({"custom_calls": "four"}, config).custom_calls == ("four",)
    with pytest.raises(ConfigurationError, match=r"custom_calls: .*got '\.\./five'"):
        load_settings({"custom_calls": "four,../five"})


def test_programs_that_fail_to_compile_are_kept_with_the_dumps_or_in_the_user_s_state(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert incident_directory("/dumps") == Path("/dumps")
    assert incident_directory("") == tmp_path / "xla-server" / "incidents"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert incident_directory("") == tmp_path / ".local/state/xla-server/incidents"


def test_a_directory_for_dumps_is_made_and_must_be_one(tmp_path):
    made = tmp_path / "deep" / "dumps"
    with create_server(Settings(listen="127.0.0.1:0", dump_dir=str(made))):
        assert made.stat().st_mode & 0o077 == 0
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigurationError, match=r"dump_dir: .*file"),
        create_server(Settings(listen="127.0.0.1:0", dump_dir=str(tmp_path / "file"))),
    ):
        pass


def test_the_directory_of_kernels_is_the_users_own_by_default(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert load_settings({}).compilation_cache_dir == "/caches/xla-server/kernels"
    assert load_settings({"compilation_cache_dir": ""}).compilation_cache_dir == ""
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    expected = "/home/someone/.cache/xla-server/kernels"
    assert load_settings({}).compilation_cache_dir == expected


def test_all_programs_run_in_as_many_threads_as_is_said():
    options = Settings(listen="127.0.0.1:0", platform="interpreter", execute_threads=3)
    with create_server(options) as server:
        assert server._sessions.engine.execution_threads._size == 3
