"""Access control of a server: its options made into credentials, with the policy applied."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import Settings, SocketMode
from xla_server.identity.authenticator import Authenticator, Sources
from xla_server.identity.certificates import KeyPair, fingerprint, self_signed, watched_pair
from xla_server.identity.identity import parse_roles
from xla_server.identity.policy import (
    Reach,
    needs_token,
    plaintext_faults,
    reach_of,
    trusts_sockets,
)
from xla_server.identity.tokens import ensure_token, parse_tokens
from xla_server.identity.watched_file import CredentialsError, WatchedFile
from xla_server.identity.web_tokens import (
    KEY_SET_ALGORITHMS,
    SECRET_ALGORITHMS,
    WebTokenRules,
    parse_key_set,
    parse_secret,
)

_TOKEN = "token"
_PAIR = "tls.pem"
_CERTIFICATE = "tls.crt"

_KEY_SET_DEFAULT = ("RS256", "ES256", "EdDSA")
_SECRET_DEFAULT = ("HS256",)

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class MadeToken:
    """The token of a server that was given no credentials."""

    path: Path
    is_new: bool


@dataclasses.dataclass(frozen=True, slots=True)
class AccessControl:
    """Access control of one server."""

    authenticator: Authenticator
    certificates: WatchedFile[KeyPair] | None = None
    socket_mode: int = 0o600
    token: MadeToken | None = None
    """The token that the server made; None if the operator configured credentials or none."""
    pinned: str = ""
    """Fingerprint of a certificate that the server has made."""


def prepare_access(settings: Settings) -> AccessControl:
    """Read and make credentials.

    Raises ConfigurationError for options that do not fit together, files that cannot be used, and
    an address that must not be listened on so.
    """
    _require_fitting(settings)
    try:
        return _access(settings)
    except CredentialsError as error:
        raise ConfigurationError(str(error)) from None


def connecting_line(access: AccessControl, address: str) -> str:
    """Return the line of Python that connects to `address` with the credentials that were made.

    It has the token if this is new, else the file that has the token: a secret is logged once.
    """
    host, colon, port = address.rpartition(":")
    if reach_of(address) is Reach.NETWORK and host.strip("[]") in ("0.0.0.0", "::"):
        address = f"localhost{colon}{port}"
    arguments = [repr(address)]
    if access.token is not None and reach_of(address) is not Reach.OWNER:
        path = access.token.path
        token = repr(path.read_text().strip()) if access.token.is_new else f"Path({str(path)!r})"
        arguments.append(f"token={token}")
    if access.certificates is not None and reach_of(address) is not Reach.OWNER:
        pinned = f"fingerprint={access.pinned!r}" if access.pinned else ""
        arguments.append(f"credentials=xla_client.Tls({pinned})")
    return f"xla_client.connect({', '.join(arguments)})"


def _access(settings: Settings) -> AccessControl:
    directory = Path(settings.state_dir)
    is_tls = bool(settings.tls_cert_file) or settings.tls_self_signed
    has_tokens = bool(settings.token_file or settings.jwt_keys_file or settings.jwt_secret_file)
    faults = plaintext_faults(settings.listen, has_tls=is_tls, is_insecure=settings.insecure)
    if faults:
        raise ConfigurationError("\n".join(faults))
    made = None
    has_identity = has_tokens or bool(settings.client_ca_file)
    if needs_token(settings.listen, has_identity=has_identity, is_insecure=settings.insecure):
        path = directory / _TOKEN
        made = MadeToken(path, ensure_token(path))
    token_file = str(made.path) if made is not None else settings.token_file
    certificates = _certificates(settings, directory) if is_tls else None
    sources = Sources(
        tokens=_watched(token_file, parse_tokens),
        web_keys=_watched(settings.jwt_keys_file, parse_key_set)
        or _watched(settings.jwt_secret_file, parse_secret),
        web_rules=_web_rules(settings),
        roles=_watched(settings.roles_file, parse_roles),
        has_certificates=bool(settings.client_ca_file),
        socket_group=os.getegid() if settings.socket_mode is SocketMode.GROUP else None,
        trusts_sockets=trusts_sockets(settings.listen),
    )
    return AccessControl(
        Authenticator(sources),
        certificates,
        int(settings.socket_mode, 8),
        made,
        fingerprint(certificates.value.chain)
        if settings.tls_self_signed and certificates is not None
        else "",
    )


def _certificates(settings: Settings, directory: Path) -> WatchedFile[KeyPair]:
    client_ca = Path(settings.client_ca_file) if settings.client_ca_file else None
    if settings.tls_self_signed:
        pair = directory / _PAIR
        self_signed(pair, directory / _CERTIFICATE)
        return watched_pair(pair, pair, client_ca)
    return watched_pair(Path(settings.tls_key_file), Path(settings.tls_cert_file), client_ca)


def _watched(file: str, parse: Callable[[bytes], T]) -> WatchedFile[T] | None:
    return WatchedFile(Path(file), parse) if file else None


def _web_rules(settings: Settings) -> WebTokenRules | None:
    if not settings.jwt_keys_file and not settings.jwt_secret_file:
        return None
    default = _KEY_SET_DEFAULT if settings.jwt_keys_file else _SECRET_DEFAULT
    return WebTokenRules(
        settings.jwt_algorithms or default,
        settings.jwt_audience,
        settings.jwt_issuer,
        settings.jwt_role_claim,
    )


def _require_fitting(settings: Settings) -> None:
    """Raise ConfigurationError for options of which one makes no sense with, or without, others."""
    faults = []
    if bool(settings.tls_cert_file) != bool(settings.tls_key_file):
        faults.append("tls_cert_file: must come with tls_key_file, got one of them alone")
    if settings.tls_self_signed and settings.tls_cert_file:
        faults.append("tls_self_signed: must come without tls_cert_file, got both")
    if settings.client_ca_file and not (settings.tls_cert_file or settings.tls_self_signed):
        faults.append("client_ca_file: must come with a certificate of the server, got none")
    if settings.jwt_keys_file and settings.jwt_secret_file:
        faults.append("jwt_keys_file: must come without jwt_secret_file, got both")
    if settings.jwt_keys_file and not settings.jwt_audience:
        faults.append(
            "jwt_audience: must be given with jwt_keys_file, for its issuer signs tokens of other "
            "services, too, got none"
        )
    given = ["jwt_audience", "jwt_issuer", "jwt_role_claim", "jwt_algorithms"]
    if not settings.jwt_keys_file and not settings.jwt_secret_file:
        faults += [
            f"{name}: must come with jwt_keys_file or jwt_secret_file, got neither"
            for name in given
            if getattr(settings, name)
        ]
    known = KEY_SET_ALGORITHMS if settings.jwt_keys_file else SECRET_ALGORITHMS
    kind = "a key set" if settings.jwt_keys_file else "a shared secret"
    faults += [
        f"jwt_algorithms: must be of {', '.join(known)} with {kind}, got {name!r:.40}"
        for name in settings.jwt_algorithms
        if name not in known
    ]
    if faults:
        raise ConfigurationError("\n".join(faults))
