"""The state of a server as text, and the credentials of commands that ask for it."""

import json
from pathlib import Path

import pytest

from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.app.calling.credentials import ClientCredentials, checked_target, credentials_for
from xla_server.app.calling.status import as_json, as_lines
from xla_server.app.endings import ConfigurationError

STATE = extension_pb2.DescribeServerResponse(
    server="xla-service 1",
    platform="cpu",
    seconds=3700,
    devices=["cpu:0", "cpu:1"],
    device_bytes=extension_pb2.Usage(used=3 * 2**20, limit=2**30),
    executables=extension_pb2.Usage(used=2, limit=10),
    waiting_executions=4,
    fusion_faults=5,
    pools=[extension_pb2.PoolDescription(name="short", threads=6, waiting=7)],
    described_sessions=[
        extension_pb2.SessionSummary(
            identity="cert:" + "x" * 40,
            idle_seconds=90,
            executables=8,
            use=extension_pb2.Quotas(device_bytes=1536, queued_items=9),
        )
    ],
)


def test_lines_for_people() -> None:
    text = "\n".join(as_lines(STATE))
    for words in (
        "xla-service 1, platform cpu, up 1 h 1 min",
        "2: cpu:0, cpu:1",
        "3.0 MiB of 1.0 GiB on devices",
        "2 of 10 in use",
        "fusions that failed to compile: 5",
        "4 waiting for memory",
        "short: 6, 7",
        "away    0      1.5 KiB  0        8            0+0               9 (0 B)       1 min 30 s",
        "handles  executables  running+launched  fullest feed  unused for",
    ):
        assert words in text


def test_json_for_scripts_has_numbers_and_zeros() -> None:
    found = json.loads(as_json(STATE))
    assert found["device_bytes"] == {"used": 3 * 2**20, "limit": 2**30}
    assert found["launched_executions"] == {"used": 0, "limit": 0}
    assert found["described_sessions"][0]["use"]["queued_items"] == 9
    assert found["described_sessions"][0]["is_attached"] is False


def test_credentials_come_from_flags_before_the_environment_before_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('["h:1"]\ntoken = "of-the-file"\nca_file = "ca.pem"\n')
    config.chmod(0o600)
    environment = {"XLA_CLIENT_CONFIG": str(config)}
    assert credentials_for("h:1", {}, environment) == ClientCredentials("of-the-file", "ca.pem")
    assert credentials_for("h:2", {}, environment) == ClientCredentials()
    environment["XLA_CLIENT_TOKEN"] = "of-the-environment"
    assert credentials_for("h:1", {}, environment).token == "of-the-environment"
    (tmp_path / "token").write_text("of-a-flag\n")
    flags = {"token_file": str(tmp_path / "token"), "tls": False, "ca_file": None}
    assert credentials_for("h:1", flags, environment) == ClientCredentials("of-a-flag", "ca.pem")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"XLA_CLIENT_TOKEN": "t"}, "a token must not go to another machine in plaintext, got h:1"),
        ({"XLA_CLIENT_TOKEN_FILE": "/nowhere"}, "/nowhere: a token cannot be read"),
        ({"XLA_CLIENT_CERT_FILE": "c"}, "cert-file must come with key-file"),
        ({"XLA_CLIENT_CONFIG": "/nowhere"}, "XLA_CLIENT_CONFIG must name a file, got /nowhere"),
    ],
)
def test_credentials_that_cannot_be_used_are_reported(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        credentials_for("h:1", {}, environment)


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ('["h:1"]\ntoken = "t"\n', 0o644, "must be readable by its owner alone, got mode 0644"),
        (
            '["h:1"]\ntokem = "t"\n',
            0o600,
            "keys of the client's, got tokem; did you mean token",
        ),
        ('["h:1"\n', 0o600, "config.toml: "),
    ],
)
def test_a_file_that_cannot_be_used_is_reported(
    text: str, mode: int, message: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    config.chmod(mode)
    with pytest.raises(ConfigurationError, match=message):
        credentials_for("h:1", {}, {"XLA_CLIENT_CONFIG": str(config)})


def test_a_token_may_stay_on_this_machine_or_go_by_tls() -> None:
    token = {"XLA_CLIENT_TOKEN": "t"}
    for target in ("127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/s"):
        assert credentials_for(target, {}, token).token == "t"
    assert credentials_for("h:1", {"tls": True}, token).speaks_tls
    assert credentials_for("h:1", {"insecure": True}, token).token == "t"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("host", "host:1685"),
        ("host:7", "host:7"),
        ("[::1]", "[::1]:1685"),
        ("[::1]:7", "[::1]:7"),
        ("unix:/s", "unix:/s"),
        ("dns:///host:7", "dns:///host:7"),
    ],
)
def test_a_target_without_a_port_has_the_servers_own(given: str, taken: str) -> None:
    assert checked_target(given) == taken


@pytest.mark.parametrize("target", ["", "http://host:1685", "https://host"])
def test_a_target_is_no_url(target: str) -> None:
    with pytest.raises(ConfigurationError, match="must be host:port or unix:/path, got"):
        checked_target(target)
