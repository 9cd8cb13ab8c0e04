"""Credentials of a connection, from wherever they are configured."""

from pathlib import Path
from typing import Any

import pytest

from xla_client.transport import credentials
from xla_client.transport.credentials import Access, forget, remember, resolve
from xla_client.transport.tls import Tls
from xla_contract.errors import InvalidArgumentError

HERE, THERE = "127.0.0.1:1685", "host.example:1685"


class Asking:
    """Asks with a configuration of its own."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "xla-client" / "config.toml"
        self.environment = {"XDG_CONFIG_HOME": str(directory)}

    def write(self, text: str, mode: int = 0o600) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(text)
        self.file.chmod(mode)

    def __call__(self, target: str = HERE, **named: Any) -> Access:
        given: dict[str, Any] = {"has_credentials": False, "tls": None, "token": None}
        given |= {"insecure": False, "environment": self.environment}
        return resolve(target, **(given | named))

    def refused(self, complaint: str, target: str = HERE, **named: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=complaint) as caught:
            self(target, **named)
        assert "secret" not in str(caught.value)


@pytest.fixture
def ask(tmp_path: Path) -> Asking:
    return Asking(tmp_path)


def token_of(access: Access) -> str | None:
    return None if access.token is None else access.token()


def test_nothing_configured_is_nothing(ask: Asking) -> None:
    assert ask(THERE) == Access()


def test_arguments_before_environment_before_file(ask: Asking, tmp_path: Path) -> None:
    ask.write(f'["{HERE}"]\ntoken = "of-file"\nca_file = "/file.pem"\n["other:1"]\ntoken = "x"\n')
    assert (token_of(ask()), ask().tls) == ("of-file", Tls("/file.pem"))
    assert ask("localhost:2") == Access()
    ask.environment["XLA_CLIENT_TOKEN"] = "of-environment"
    ask.environment["XLA_CLIENT_CA_FILE"] = "/environment.pem"
    assert (token_of(ask()), ask().tls) == ("of-environment", Tls("/environment.pem"))
    found = ask(token="given", tls=Tls("/given.pem"))
    assert (token_of(found), found.tls) == ("given", Tls("/given.pem"))
    # Credentials of grpc's are all there is of TLS.
    assert ask(has_credentials=True).tls is None


def test_all_there_is_in_the_environment(ask: Asking, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-token-file\n")
    ask.environment |= {
        "XLA_CLIENT_TOKEN_FILE": str(tmp_path / "token"),
        "XLA_CLIENT_CERT_FILE": "/c",
        "XLA_CLIENT_KEY_FILE": "/k",
        "XLA_CLIENT_FINGERPRINT": "sha256:" + "0" * 64,
    }
    found = ask(THERE)
    assert token_of(found) == "of-token-file"
    assert found.tls == Tls(cert_file="/c", key_file="/k", fingerprint="sha256:" + "0" * 64)
    ask.environment = {"XLA_CLIENT_TLS": "1", "XDG_CONFIG_HOME": "/nowhere"}
    assert ask(THERE).tls == Tls()
    ask.environment["XLA_CLIENT_TLS"] = "0"
    assert ask(THERE).tls is None


def test_a_token_stays_on_the_machine_without_tls(ask: Asking) -> None:
    for local in (
        HERE,
        "localhost:1",
        "[::1]:1",
        "unix:/s",
        "unix-abstract:s",
        "dns:///localhost:1",
    ):
        assert token_of(ask(local, token="secret")) == "secret"
    for remote in (THERE, "10.0.0.1:1", "localhost.example:1", "[fe80::1]:1", "dns:///host:1"):
        ask.refused("must not go to another machine in plaintext", remote, token="secret")
        assert token_of(ask(remote, token="secret", insecure=True)) == "secret"
        assert token_of(ask(remote, token="secret", tls=Tls())) == "secret"
        assert token_of(ask(remote, token="secret", has_credentials=True)) == "secret"
    ask.environment["XLA_CLIENT_TOKEN"] = "secret"
    ask.refused("must not go to another machine in plaintext", THERE)
    ask.environment["XLA_CLIENT_INSECURE"] = "1"
    assert token_of(ask(THERE)) == "secret"


def test_servers_of_this_process_have_their_own_token(ask: Asking) -> None:
    ask.environment["XLA_CLIENT_TOKEN"] = "of-environment"
    ask.environment["XLA_CLIENT_TLS"] = "1"
    remember(HERE, "of-local")
    try:
        assert (token_of(ask()), ask().tls) == ("of-local", None)
        assert token_of(ask(token="given")) == "given"
        assert token_of(ask("127.0.0.1:2")) == "of-environment"
    finally:
        forget(HERE)
    forget(HERE)
    assert token_of(ask()) == "of-environment"


def test_a_misspelt_variable_is_refused_with_the_nearest_name(ask: Asking) -> None:
    ask.environment["XLA_CLIENT_MEM_FRACTION"] = ".5"  # JAX's.
    assert ask() == Access()
    ask.environment["XLA_CLIENT_TOKEN_FIEL"] = "/secret"
    ask.refused(r"got XLA_CLIENT_TOKEN_FIEL; did you mean XLA_CLIENT_TOKEN_FILE\?")
    del ask.environment["XLA_CLIENT_TOKEN_FIEL"]
    ask.environment["XLA_CLIENT_ZZZ"] = "/secret"
    ask.refused(r"got XLA_CLIENT_ZZZ; there are XLA_CLIENT_TOKEN, .*XLA_CLIENT_SHARED_MEMORY")


def test_a_target_of_the_file_may_leave_the_port_out(ask: Asking) -> None:
    ask.write('["host.example"]\ntoken = "x"\ntls = true\n["http://other"]\n')
    assert token_of(ask(THERE)) == "x"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "a configuration must be TOML, got .*config.toml"),
        (f'"{HERE}" = 1', "a target must be a table"),
        (f'["{HERE}"]\ncolour = "red"', r"config.toml:2: .* got colour; there are token, "),
        (f'["{HERE}"]\ntoken = 1', "config.toml:2: token must be a text, got one of type int"),
        (
            f'["{HERE}"]\ntls = "yes"',
            "config.toml:2: tls must be true or false, got one of type str",
        ),
        (
            f'# x\n["other:1"]\ntoken_fil = 1\n\n["{HERE}"] # y\n"token_fil" = "z"',
            r"config.toml:6: .* got token_fil; did you mean token_file\?",
        ),
        ("token = 'secret'", "config.toml:1: a target must be a table .* got the key token out"),
    ],
)
def test_a_file_that_is_no_configuration(text: str, complaint: str, ask: Asking) -> None:
    ask.write(text)
    ask.refused(complaint)


def test_a_file_with_a_token_is_its_owners_alone(ask: Asking) -> None:
    ask.write(f'["{HERE}"]\ntoken = "secret"\n', 0o644)
    ask.refused("must be readable by its owner alone, got mode 0644")
    # One that names a file is no secret.
    ask.write(f'["{HERE}"]\ntls = true\n', 0o644)
    assert ask().tls == Tls()


def test_a_file_that_is_named_must_be_there(ask: Asking, tmp_path: Path) -> None:
    ask.environment["XLA_CLIENT_CONFIG"] = str(tmp_path / "named.toml")
    ask.refused("XLA_CLIENT_CONFIG must name a file")
    (tmp_path / "named.toml").write_text(f'["{HERE}"]\ntls = true\n')
    assert ask().tls == Tls()


def test_a_file_of_a_token_is_read_again(
    ask: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    ask.refused("must be readable, got .*token", token=file)
    file.write_text("")
    ask.refused("must be printable ASCII", token=file)
    file.write_text("first\n")
    found = ask(token=file)
    file.write_text("second\n")
    assert token_of(found) == "first"
    monkeypatch.setattr(credentials, "_READ_SECONDS", 0)
    assert token_of(found) == "second"
    # Half a file is none.
    file.write_text("")
    assert token_of(found) == "second"


def test_a_function_gives_the_token_of_each_call(ask: Asking) -> None:
    tokens = iter(("first", "second"))
    found = ask(token=lambda: next(tokens))
    assert (token_of(found), token_of(found)) == ("first", "second")


@pytest.mark.parametrize("token", ["", "a secret", "a\nb", "é" * 20])
def test_a_token_can_be_sent_as_a_header(token: str, ask: Asking) -> None:
    ask.refused("must be printable ASCII without spaces", token=token)
