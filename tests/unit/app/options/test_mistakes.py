"""Unknown options and values that do not fit are errors that name their file and line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from xla_server.app.commands import app
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.mistakes import line_of, nearest, unknown_variables
from xla_server.app.options.settings import load_settings

FILE = """
# feed_items = 3, once
devices = 2
"feed_itemz" = 3
feed_bytes = "4Gi"

[short_thread]
number = 4
"""


def test_a_misspelt_variable_is_an_error_with_the_name_near_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLA_SERVER_FEED_ITEMZ", "3")
    with pytest.raises(ConfigurationError) as caught:
        load_settings({})
    assert str(caught.value) == (
        "XLA_SERVER_FEED_ITEMZ: there is no such option; did you mean XLA_SERVER_FEED_ITEMS?"
    )


def test_a_misspelt_key_is_an_error_with_file_line_and_the_name_near_it(tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    config.write_text(FILE)
    with pytest.raises(ConfigurationError) as caught:
        load_settings({}, config)
    lines = str(caught.value).splitlines()
    assert f"{config}:4: feed_itemz: there is no such option; did you mean feed_items?" in lines
    assert (
        f"{config}:7: short_thread: there is no such option; did you mean short_threads?" in lines
    )
    assert any(line.startswith(f"{config}:5: feed_bytes: must be a number of") for line in lines)
    assert len(lines) == 3


def test_a_wrong_value_is_reported_where_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "server.toml"
    config.write_text("\ndevices = 'many'\n")
    with pytest.raises(ConfigurationError, match=r"server\.toml:2: devices: .*got 'many'"):
        load_settings({}, config)
    monkeypatch.setenv("XLA_SERVER_DEVICES", "few")
    with pytest.raises(ConfigurationError, match=r"^XLA_SERVER_DEVICES: .*got 'few'"):
        load_settings({}, config)
    with pytest.raises(ConfigurationError, match=r"^devices: .*got 'none'"):
        load_settings({"devices": "none"}, config)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--feed-items", "x"], "feed_items: must be a valid integer, got 'x'"),
        (["--platform", "tpu"], "platform: must be 'interpreter', 'cpu' or 'cuda', got 'tpu'"),
        (["--listen", "host"], "listen: must be HOST:PORT, [IPV6]:PORT or unix:PATH, got 'host'"),
        (["--config", "/"], "/: must be a file, got a directory"),
    ],
)
def test_a_wrong_flag_has_one_line_with_its_rule(flags: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["serve", *flags])
    assert (result.exit_code, result.stderr) == (2, f"xla-server: {sentence}\n")


def test_variables_that_kubernetes_sets_for_a_service_of_the_name_are_passed_over() -> None:
    names = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_GRPC", "PORT", "PORT_1685_TCP_ADDR"]
    variables = [f"XLA_SERVER_{name}" for name in names]
    assert unknown_variables(variables, "XLA_SERVER_", ["listen"]) == []
    [fault] = unknown_variables(["XLA_SERVER_PORTS", "PORTS"], "XLA_SERVER_", ["listen"])
    assert fault == "XLA_SERVER_PORTS: there is no such option"


def test_the_file_s_variable_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_SERVER_CONFIG", "/elsewhere")
    load_settings({})


def test_names_far_from_all_are_near_none() -> None:
    assert nearest("colour", ["devices", "listen"]) == ""
    assert nearest("DEVISES", ["devices", "listen"]) == "; did you mean devices?"


def test_lines_of_keys() -> None:
    assert line_of("devices", FILE) == 3
    assert line_of("number", FILE) == 8
    assert line_of("absent", FILE) == 0
