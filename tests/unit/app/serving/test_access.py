"""Options of access control, and their credentials."""

import json
import os
import re
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.certificates import Authority
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import Settings, SocketMode
from xla_server.app.serving.access import connecting_line, prepare_access

KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A usable file for each option that names one."""
    authority = Authority()
    key, certificate = authority.issue("server").write(tmp_path, "server")
    jwk = jwt.get_algorithm_by_name("ES256").to_jwk(KEY.public_key(), as_dict=True)
    texts = {
        "token_file": "alice user the-token-of-alice\n",
        "jwt_keys_file": json.dumps({"keys": [jwk]}),
        "jwt_secret_file": "s" * 32,
        "roles_file": "token:alice admin\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = {name: str(tmp_path / name) for name in texts}
    paths |= {"tls_key_file": str(key), "tls_cert_file": str(certificate)}
    return paths | {"client_ca_file": str(authority.write(tmp_path / "ca.crt"))}


def settings(tmp_path: Path, **options: Any) -> Settings:
    return Settings(**({"state_dir": str(tmp_path / "state")} | options))


def refused(tmp_path: Path, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        prepare_access(settings(tmp_path, **options))
    assert not (tmp_path / "state").exists()
    return str(caught.value)


TLS = ("tls_key_file", "tls_cert_file")


@pytest.mark.parametrize(
    ("given", "more", "complaint"),
    [
        (TLS[:1], {}, "tls_cert_file: must come with tls_key_file"),
        (TLS[1:], {}, "tls_cert_file: must come with tls_key_file"),
        (TLS, {"tls_self_signed": True}, "tls_self_signed: must come without tls_cert_file"),
        (["client_ca_file"], {}, "client_ca_file: must come with a certificate of the server"),
        (
            ["jwt_keys_file", "jwt_secret_file"],
            {"jwt_audience": "xla"},
            "jwt_keys_file: must come without jwt_secret_file",
        ),
        (["jwt_keys_file"], {}, "jwt_audience: must be given with jwt_keys_file"),
        ([], {"jwt_issuer": "x"}, "jwt_issuer: must come with jwt_keys_file or jwt_secret_file"),
        ([], {"jwt_audience": "x"}, "jwt_audience: must come with"),
        ([], {"jwt_role_claim": "x"}, "jwt_role_claim: must come with"),
        (
            ["jwt_keys_file"],
            {"jwt_audience": "xla", "jwt_algorithms": "ES256,HS256"},
            "jwt_algorithms: must be of RS256, .* with a key set, got 'HS256'",
        ),
        (
            ["jwt_secret_file"],
            {"jwt_algorithms": "RS256"},
            "jwt_algorithms: must be of HS256, .* with a shared secret, got 'RS256'",
        ),
        (["jwt_secret_file"], {"jwt_algorithms": "none"}, "jwt_algorithms: .* got 'none'"),
    ],
)
def test_options_that_do_not_fit_together(
    given: list[str], more: dict[str, Any], complaint: str, tmp_path: Path, files: dict[str, str]
) -> None:
    reported = refused(tmp_path, **{name: files[name] for name in given}, **more)
    assert re.match(complaint, reported), reported


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for name in ("token_file", "jwt_secret_file", "roles_file"):
        assert refused(tmp_path, **{name: missing}, insecure=True) == (
            f"{missing}: No such file or directory"
        )


def test_each_address_in_plaintext_beyond_loopback_is_reported(
    tmp_path: Path, files: dict[str, str]
) -> None:
    reported = refused(
        tmp_path, listen="127.0.0.1:1,0.0.0.0:2,[::]:3", token_file=files["token_file"]
    )
    first, second = reported.splitlines()
    assert "got 0.0.0.0:2 in plaintext" in first
    assert "got [::]:3 in plaintext" in second


def test_a_token_is_made_only_where_no_policy_restricts_callers(
    tmp_path: Path, files: dict[str, str]
) -> None:
    tls = {name: files[name] for name in TLS}
    for options in (
        {"token_file": files["token_file"]},
        {"jwt_secret_file": files["jwt_secret_file"]},
        {"jwt_keys_file": files["jwt_keys_file"], "jwt_audience": "xla"},
        tls | {"client_ca_file": files["client_ca_file"]},
        {"insecure": True},
        {"listen": f"unix:{tmp_path}/socket"},
    ):
        access = prepare_access(settings(tmp_path, **options))
        assert access.token is None
        assert not (tmp_path / "state").exists()
    for is_new in (True, False):
        access = prepare_access(settings(tmp_path, **tls, listen="0.0.0.0:0"))
        assert access.token is not None
        assert access.token.is_new is is_new
        token = (tmp_path / "state" / "token").read_text().strip()
        assert access.authenticator.of_token(token).name == "token:owner"


def test_credentials_are_those_of_the_options(tmp_path: Path, files: dict[str, str]) -> None:
    names = ("token_file", "jwt_secret_file", "roles_file", "client_ca_file", *TLS)
    options: dict[str, Any] = {name: files[name] for name in names}
    access = prepare_access(settings(tmp_path, **options, socket_mode="0660"))
    known = access.authenticator
    assert (known.has_tokens, known.sources.has_certificates, known.is_open) == (True, True, False)
    assert known.of_token("the-token-of-alice").role.name == "ADMIN"
    token = jwt.encode({"sub": "carol", "exp": 1 << 40}, "s" * 32, "HS256")
    assert known.of_token(token).name == "jwt:carol"
    assert known.of_socket().name == f"unix-group:{os.getegid()}"
    assert (access.socket_mode, access.pinned) == (0o660, "")
    assert access.certificates is not None
    assert access.certificates.value.client_ca == Path(files["client_ca_file"]).read_bytes()
    assert prepare_access(settings(tmp_path)).socket_mode == 0o600
    assert Settings(socket_mode="0600").socket_mode is SocketMode.OWNER


def test_tokens_of_a_key_set_have_the_rules_of_the_options(
    tmp_path: Path, files: dict[str, str]
) -> None:
    options = {"jwt_audience": "xla", "jwt_issuer": "us", "jwt_role_claim": "role"}
    options["jwt_keys_file"] = files["jwt_keys_file"]
    known = prepare_access(settings(tmp_path, **options)).authenticator
    claims = {"sub": "carol", "exp": 1 << 40, "aud": "xla", "iss": "us", "role": "viewer"}
    assert known.of_token(jwt.encode(claims, KEY, "ES256")).role.name == "VIEWER"
    for wrong in ({"aud": "other"}, {"iss": "them"}, {"role": "root"}):
        with pytest.raises(Exception, match="the bearer token must"):
            known.of_token(jwt.encode(claims | wrong, KEY, "ES256"))


def test_the_line_that_connects_has_what_was_made(tmp_path: Path) -> None:
    access = prepare_access(settings(tmp_path))
    token = (tmp_path / "state" / "token").read_text().strip()
    assert connecting_line(access, "127.0.0.1:1") == (
        f"xla_client.connect('127.0.0.1:1', token='{token}')"
    )
    assert connecting_line(access, "unix:/s") == "xla_client.connect('unix:/s')"
    # A secret is logged once.
    access = prepare_access(settings(tmp_path, listen="[::]:1", tls_self_signed=True))
    path = tmp_path / "state" / "token"
    assert connecting_line(access, "[::]:1") == (
        f"xla_client.connect('localhost:1', token=Path('{path}'), "
        f"credentials=xla_client.Tls(fingerprint='{access.pinned}'))"
    )
    assert access.pinned.startswith("sha256:")
    assert "'10.0.0.1:1'" in connecting_line(access, "10.0.0.1:1")
