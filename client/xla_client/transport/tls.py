"""TLS of a connection: which servers are trusted, and the client's own certificate."""

import contextlib
import dataclasses
import hashlib
import hmac
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any

from xla_client.coercion.parameters import parameter_class
from xla_contract.errors import InvalidArgumentError, UnavailableError

_TIMEOUT = 10.0
"""Seconds to fetch a certificate that is pinned."""

_SCHEME = "sha256:"


@dataclasses.dataclass(frozen=True, slots=True)
class TlsMaterial:
    """PEM files of a TLS channel, and the name that the server's certificate must have."""

    roots: bytes | None
    key: bytes | None
    chain: bytes | None
    server_name: str = ""
    """Empty for the host of the target."""


@parameter_class
@dataclasses.dataclass(frozen=True, slots=True)
class Tls:
    """Options of TLS; without arguments, for servers with certificates of the system's authorities.

    Attributes:
        ca_file: PEM certificates of the authorities to trust instead of the system's.
        cert_file: PEM certificate of this client, for servers that want one; with `key_file`.
        key_file: Its PEM key.
        fingerprint: "sha256:HEX" of the one certificate that the server must have, whatever its
            name and issuer: that of a server with `--tls-self-signed`, which its log says.
    """

    ca_file: str | os.PathLike[str] | None = None
    cert_file: str | os.PathLike[str] | None = None
    key_file: str | os.PathLike[str] | None = None
    fingerprint: str = ""

    def __post_init__(self) -> None:
        """Raise InvalidArgumentError for arguments that do not fit together."""
        if (self.cert_file is None) is not (self.key_file is None):
            raise InvalidArgumentError("cert_file must come with key_file, got one of them alone")
        if self.fingerprint and self.ca_file is not None:
            raise InvalidArgumentError("fingerprint must come without ca_file, got both")
        digits = self.fingerprint.removeprefix(_SCHEME).lower()
        is_digest = len(digits) == 64 and set(digits) <= set("0123456789abcdef")
        if self.fingerprint and not (self.fingerprint.startswith(_SCHEME) and is_digest):
            raise InvalidArgumentError(
                f"fingerprint must be {_SCHEME} and 64 hexadecimal digits, got "
                f"{self.fingerprint!r:.100}"
            )

    def material(self, target: str) -> TlsMaterial:
        """Read the files, and fetch a pinned certificate.

        Args:
            target: The address of the server.

        Returns:
            The certificates and keys.

        Raises:
            InvalidArgumentError: A file cannot be read.
            UnavailableError: The server does not answer or has another certificate.
        """
        key, chain, roots = map(_read, (self.key_file, self.cert_file, self.ca_file))
        if not self.fingerprint:
            return TlsMaterial(roots, key, chain)
        der = _fetched(target, self)
        found = f"{_SCHEME}{hashlib.sha256(der).hexdigest()}"
        if not hmac.compare_digest(found, self.fingerprint.lower()):
            raise UnavailableError(
                f"connect: the server at {target} must have the certificate {self.fingerprint}, "
                f"got {found}",
                op="connect",
                hint="Unless the server has a new certificate, this is another server.",
            )
        pem = ssl.DER_cert_to_PEM_cert(der)
        # It is the only one that is trusted, so its name says nothing more.
        return TlsMaterial(pem.encode(), key, chain, _name_of(target, self, pem))


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidArgumentError(
            f"a file of TLS must be readable, got {os.fspath(path)}: {error.strerror}"
        ) from None


@contextlib.contextmanager
def _connected(target: str, tls: Tls, trusted: str | None = None) -> Iterator[ssl.SSLSocket]:
    """Connect to a server, which must have the `trusted` certificate, if there is one.

    Yields:
        The connection.

    Raises:
        UnavailableError: The server does not answer or has another certificate.
    """
    host, _, port = target.removeprefix("dns:").lstrip("/").rpartition(":")
    host = host.strip("[]")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    try:
        if trusted is None:
            context.verify_mode = ssl.CERT_NONE
        else:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_verify_locations(cadata=trusted)
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file)
        with (
            socket.create_connection((host, int(port)), _TIMEOUT) as connection,
            context.wrap_socket(connection, server_hostname=host or None) as wrapped,
        ):
            yield wrapped
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"connect: a server must speak TLS at the target, got no certificate from {target}: "
            f"{error}",
            op="connect",
        ) from error


def _fetched(target: str, tls: Tls) -> bytes:
    """Return the certificate of a server, of which nothing is checked yet."""
    with _connected(target, tls) as connection:
        return connection.getpeercert(binary_form=True) or b""


def _name_of(target: str, tls: Tls, pem: str) -> str:
    """Return the first name of a certificate that is trusted: Python parses no others."""
    with _connected(target, tls, pem) as connection:
        found: Any = connection.getpeercert() or {}
    names = found.get("subjectAltName", ())
    hosts = [name for kind, name in names if kind == "DNS"]
    return next(iter(hosts or [name for _, name in names]), "")
