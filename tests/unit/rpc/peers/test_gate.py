from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.certificates import Authority
from xla_contract.errors import PermissionDeniedError, UnauthenticatedError
from xla_server.identity.authenticator import Authenticator, Sources
from xla_server.identity.identity import parse_roles
from xla_server.identity.tokens import parse_tokens
from xla_server.identity.watched_file import WatchedFile
from xla_server.rpc.peers.gate import Gate, bearer_token

TOKEN = "the-token-of-alice"
SHAPE, COMPILE = "/xla.XlaService/GetShape", "/xla.XlaService/Compile"


class Context:
    """The part of a grpc context that a gate reads."""

    def __init__(
        self,
        *metadata: tuple[str, str | bytes],
        peer: str = "ipv4:127.0.0.1:1",
        pem: bytes | None = None,
    ) -> None:
        self._metadata = metadata
        self._peer = peer
        self._properties = {} if pem is None else {"x509_pem_cert": [pem]}

    def invocation_metadata(self) -> Any:
        return self._metadata

    def peer(self) -> str:
        return self._peer

    def auth_context(self) -> Any:
        return self._properties


def with_token(token: str, **named: Any) -> Any:
    return Context(("authorization", f"Bearer {token}"), **named)


@pytest.fixture
def tokens(tmp_path: Path) -> WatchedFile[Any]:
    (tmp_path / "tokens").write_text(f"alice viewer {TOKEN}\n")
    return WatchedFile(tmp_path / "tokens", parse_tokens)


def gate(**named: Any) -> Gate:
    return Gate(Authenticator(Sources(**named)))


def test_the_header_of_a_token() -> None:
    assert bearer_token(None) is None
    assert bearer_token([("other", "x")]) is None
    for value in ("Bearer x.y", "bearer x.y", "BEARER  x.y ", b"Bearer x.y"):
        assert bearer_token([("authorization", value)]) == "x.y"
    for value in ("x.y", "Basic x", "Bearer", "Bearer  ", ""):
        with pytest.raises(UnauthenticatedError, match="must be `Bearer TOKEN`"):
            bearer_token([("authorization", value)])
    with pytest.raises(UnauthenticatedError, match="one header authorization, got 2"):
        bearer_token([("authorization", "Bearer x")] * 2)


def test_without_an_authenticator_anybody_may_call() -> None:
    found = Gate().identify(with_token("whatever"))
    assert (found.name, found.is_authenticated) == ("anonymous", False)
    # Over a socket its file identifies the caller.
    assert Gate().identify(Context(peer="unix:")).is_authenticated  # type: ignore[arg-type]


def test_a_token_counts_before_the_connection(tokens: WatchedFile[Any]) -> None:
    pem = Authority().issue("gateway").certificate
    both = gate(tokens=tokens, has_certificates=True)
    assert both.identify(with_token(TOKEN, pem=pem)).name == "token:alice"
    assert both.identify(with_token(TOKEN, peer="unix:")).name == "token:alice"
    assert both.identify(Context(pem=pem)).name == "cert:gateway"  # type: ignore[arg-type]
    # A wrong one is not passed over.
    with pytest.raises(UnauthenticatedError):
        both.identify(with_token("another-token", pem=pem))
    with pytest.raises(UnauthenticatedError):
        both.identify(with_token("another-token", peer="unix:"))


def test_where_no_tokens_are_checked_none_is_looked_at() -> None:
    pem = Authority().issue("alice").certificate
    assert gate(has_certificates=True).identify(with_token("x", pem=pem)).name == "cert:alice"


def test_a_socket_that_anybody_may_connect_to_says_nothing(tokens: WatchedFile[Any]) -> None:
    with pytest.raises(UnauthenticatedError):
        gate(tokens=tokens, trusts_sockets=False).identify(Context(peer="unix:"))  # type: ignore[arg-type]
    found = gate(trusts_sockets=False).identify(Context(peer="unix:"))  # type: ignore[arg-type]
    assert not found.is_authenticated


def test_what_to_do_without_credentials_depends_on_what_is_checked(
    tokens: WatchedFile[Any],
) -> None:
    for checked, hint in (
        (gate(tokens=tokens), "authorization: Bearer TOKEN"),
        (gate(has_certificates=True), "client certificate"),
    ):
        with pytest.raises(
            UnauthenticatedError, match="must carry credentials, got none"
        ) as reported:
            checked.identify(Context())  # type: ignore[arg-type]
        assert hint in reported.value.hint


def test_the_role_of_the_identity_decides(tokens: WatchedFile[Any], tmp_path: Path) -> None:
    assert gate(tokens=tokens).admit(with_token(TOKEN), SHAPE).name == "token:alice"
    with pytest.raises(PermissionDeniedError, match="Compile must be called in the role user"):
        gate(tokens=tokens).admit(with_token(TOKEN), COMPILE)
    (tmp_path / "roles").write_text("token:alice user\n")
    roles = WatchedFile(tmp_path / "roles", parse_roles)
    assert gate(tokens=tokens, roles=roles).admit(with_token(TOKEN), COMPILE)


def test_a_refusal_has_the_status_of_its_error_and_is_logged_now_and_then(
    tokens: WatchedFile[Any], caplog: pytest.LogCaptureFixture
) -> None:
    checked = gate(tokens=tokens)
    accepted: Any = checked.examine(with_token(TOKEN), SHAPE)
    assert accepted.name == "token:alice"
    for _ in range(3):
        found: Any = checked.examine(with_token("another-token"), SHAPE)
        assert found.code is grpc.StatusCode.UNAUTHENTICATED
        assert found.details.startswith("GetShape: the bearer token must be one that this server")
    found = checked.examine(with_token(TOKEN), COMPILE)
    assert found.code is grpc.StatusCode.PERMISSION_DENIED
    (record,) = caplog.records
    assert "refused 1 calls, the last: the bearer token" in record.message
    assert "another-token" not in caplog.text
