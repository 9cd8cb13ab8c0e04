"""Settings of programs that call a server: the environment before the file."""

from pathlib import Path
from typing import NoReturn

import pytest

from xla_contract.client_settings import configured_for, overridden, require_known
from xla_contract.errors import InvalidArgumentError


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    config = tmp_path / "config.toml"
    config.write_text('[h]\ntoken = "of-the-file"\ntls = true\nca_file = "ca.pem"\n')
    config.chmod(0o600)
    return {"XLA_CLIENT_CONFIG": str(config)}


def test_the_environment_counts_before_the_file(environment: dict[str, str]) -> None:
    found = configured_for("h:1685", environment)
    assert (found["token"], found["tls"], found["ca_file"]) == ("of-the-file", True, "ca.pem")
    assert found["insecure"] is None
    environment |= {"XLA_CLIENT_TLS": "0", "XLA_CLIENT_CA_FILE": "other.pem"}
    found = configured_for("h:1685", environment)
    assert (found["token"], found["tls"], found["ca_file"]) == ("of-the-file", False, "other.pem")
    assert configured_for("other:1685", environment)["token"] is None


def test_the_file_of_a_token_that_is_nearer_counts(environment: dict[str, str]) -> None:
    environment["XLA_CLIENT_TOKEN_FILE"] = "/run/token"
    found = configured_for("h:1685", environment)
    assert (found["token"], found["token_file"]) == (None, "/run/token")
    found = overridden(found, {"token": "given"})
    assert (found["token"], found["token_file"]) == ("given", None)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise PermissionError(13, "Permission denied")


def test_a_directory_that_this_user_cannot_look_into_has_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "open", _refuse)
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert configured_for("h:1685", environment)["token"] is None
    # A file that is there and cannot be read is a mistake, and so is one that was named.
    (tmp_path / "xla-client").mkdir()
    named = {"XLA_CLIENT_CONFIG": str(tmp_path / "nowhere" / "config.toml")}
    for each in (environment, named):
        with pytest.raises(InvalidArgumentError, match=r"that can be read, got .*: Permission"):
            configured_for("h:1685", each)


def test_a_variable_that_nothing_reads_is_a_mistake() -> None:
    # JAX has it.
    require_known({"XLA_CLIENT_MEM_FRACTION": ".5", "XLA_CLIENT_TOKEN": "t", "OTHER": ""})
    with pytest.raises(InvalidArgumentError, match="got XLA_CLIENT_TOKN; did you mean XLA_CLIENT_"):
        require_known({"XLA_CLIENT_TOKN": "t"})
