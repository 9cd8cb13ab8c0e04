import os
import time
from collections.abc import Callable
from pathlib import Path

import jwt
import pytest

from tests.certificates import Authority
from tests.unit.clock import Clock
from xla_contract.errors import UnauthenticatedError
from xla_server.identity import authenticator as module
from xla_server.identity import web_tokens
from xla_server.identity.authenticator import ANYBODY, Authenticator, Sources
from xla_server.identity.identity import Role, parse_roles
from xla_server.identity.tokens import parse_tokens
from xla_server.identity.watched_file import WatchedFile
from xla_server.identity.web_tokens import WebTokenRules, parse_secret

ALICE, BOB, SECRET = "the token of alice", "the token of bob", "s" * 32
ALICE, BOB = ALICE.replace(" ", "-"), BOB.replace(" ", "-")


@pytest.fixture
def clock() -> Clock:
    return Clock(time.time())


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Callable[..., Authenticator]:
    (tmp_path / "tokens").write_text(f"alice user {ALICE}\n")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "roles").write_text("token:alice viewer\ncert:eve none\n")

    def made(*kinds: str, **named: object) -> Authenticator:
        sources = Sources(
            tokens=WatchedFile(tmp_path / "tokens", parse_tokens) if "tokens" in kinds else None,
            web_keys=WatchedFile(tmp_path / "secret", parse_secret) if "jwt" in kinds else None,
            web_rules=WebTokenRules(("HS256",)),
            roles=WatchedFile(tmp_path / "roles", parse_roles) if "roles" in kinds else None,
            **named,  # type: ignore[arg-type]
        )
        return Authenticator(sources, clock)

    return made


@pytest.mark.parametrize(
    ("lines", "role"),
    [
        ("token:alice admin\n* none\n", Role.ADMIN),
        ("token:bob admin\n* none\n", Role.NONE),
        ("token:bob admin\n", Role.USER),
    ],
)
def test_a_role_is_that_of_the_line_of_its_own_or_of_everybody(
    make: Callable[..., Authenticator], tmp_path: Path, lines: str, role: Role
):
    tokens = make("tokens", "roles")
    (tmp_path / "roles").write_text(lines)
    assert tokens.refresh()
    assert tokens.of_token(ALICE).role is role


def web_token(expires_at: float, **claims: object) -> str:
    return jwt.encode({"sub": "carol", "exp": expires_at} | claims, SECRET, "HS256")


def test_tokens_of_both_kinds(make: Callable[..., Authenticator], clock: Clock):
    both = make("tokens", "jwt")
    assert both.of_token(ALICE).name == "token:alice"
    assert both.of_token(web_token(clock.now + 60)).name == "jwt:carol"
    for token in (BOB, "", "a.b.c", ALICE + "x"):
        with pytest.raises(UnauthenticatedError):
            both.of_token(token)
    with pytest.raises(UnauthenticatedError, match="must be one that this server knows"):
        make("tokens").of_token(web_token(clock.now + 60))
    assert both.has_tokens
    assert not both.is_open


def test_a_token_is_verified_once_until_it_expires(
    make: Callable[..., Authenticator], clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    verified = []
    original = web_tokens.verify
    monkeypatch.setattr(web_tokens, "verify", lambda *given: verified.append(1) or original(*given))
    web, token = make("jwt"), web_token(int(clock.now) + 60)
    for _ in range(3):
        assert web.of_token(token).name == "jwt:carol"
    assert len(verified) == 1
    # Known does not mean valid for ever.
    clock.now = int(clock.now) + 60
    with pytest.raises(UnauthenticatedError, match="must not have expired"):
        web.of_token(token)
    assert len(verified) == 1


def test_the_tokens_that_are_kept_are_bounded(
    make: Callable[..., Authenticator], clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_CACHED_TOKENS", 2)
    web = make("jwt")
    first, *others = (web_token(clock.now + 60, n=n) for n in range(4))
    web.of_token(first)
    for token in others:
        web.of_token(token)
        web.of_token(first)  # In use, and so not the one to go.
    assert len(web._cache) == 2
    assert module.digest_of(first) in web._cache
    # A token that is refused is not cached.
    with pytest.raises(UnauthenticatedError):
        web.of_token("a.b.c")
    assert len(web._cache) == 2


def test_files_that_change_count_for_tokens_that_were_verified(
    make: Callable[..., Authenticator], tmp_path: Path
):
    tokens = make("tokens", "roles")
    assert tokens.of_token(ALICE).role is Role.VIEWER
    assert not tokens.refresh()
    (tmp_path / "roles").write_text("token:alice admin\n")
    assert tokens.refresh()
    assert tokens.of_token(ALICE).role is Role.ADMIN
    (tmp_path / "tokens").write_text(f"bob user {BOB}\n")
    assert tokens.refresh()
    assert tokens.of_token(BOB).name == "token:bob"
    with pytest.raises(UnauthenticatedError):
        tokens.of_token(ALICE)


def test_certificates(make: Callable[..., Authenticator], clock: Clock):
    certificates = make("roles", has_certificates=True)
    authority = Authority()
    pem = authority.issue("dave").certificate
    assert (certificates.of_certificate(pem).name, certificates.is_open) == ("cert:dave", False)
    assert certificates.of_certificate(authority.issue("eve").certificate).role is Role.NONE
    clock.now += 100_000
    with pytest.raises(UnauthenticatedError, match="must not have expired"):
        certificates.of_certificate(pem)


def test_sockets_have_the_identity_that_their_mode_lets_in(make: Callable[..., Authenticator]):
    found = make().of_socket()
    assert (found.name, found.role) == (f"unix:{os.geteuid()}", Role.ADMIN)
    found = make(socket_group=7).of_socket()
    assert (found.name, found.role) == ("unix-group:7", Role.USER)


def test_without_sources_anybody_may_call(make: Callable[..., Authenticator]):
    assert make().is_open
    assert ANYBODY.name == "anonymous"
    assert not make("tokens").is_open
    assert not make(has_certificates=True).is_open


def test_a_token_has_a_longest(make: Callable[..., Authenticator]):
    with pytest.raises(UnauthenticatedError, match="at most 8192 characters, got 8193"):
        make("tokens").of_token("x" * 8193)
