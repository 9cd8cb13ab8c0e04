"""X.509 certificates: the server's own with its key, those it trusts, and clients' identities."""

import dataclasses
import datetime
import functools
import ipaddress
import socket
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from xla_contract.errors import UnauthenticatedError
from xla_server.identity.identity import Identity, Role, identity_name
from xla_server.identity.watched_file import (
    CredentialsError,
    WatchedFile,
    read_credentials,
    require_private,
    write_once,
)

SELF_SIGNED_DAYS = 3650
"""Validity of a certificate that the server makes: clients pin it, so a new one locks them out."""

SELF_SIGNED_NAME = "xla-server"
"""Name in such a certificate, in addition to those of the machine."""

_MAX_CACHED = 1024
"""Largest number of client certificates whose identities are cached: one for each connection."""


@dataclasses.dataclass(frozen=True, slots=True)
class KeyPair:
    """A server's private key, its certificate chain and the certificates it trusts, as PEM."""

    key: bytes
    chain: bytes
    client_ca: bytes | None


def watched_pair(key: Path, chain: Path, client_ca: Path | None = None) -> WatchedFile[KeyPair]:
    """Return a key pair that follows its files; without `client_ca` clients need no certificate.

    Raises CredentialsError for a file that holds no PEM of its kind, and for a certificate that is
    not the key's: files are replaced one after the other, and only both together are a pair.
    """

    def parse(secret: bytes, certificates: bytes, authorities: bytes | None = None) -> KeyPair:
        leaf = _certificates(chain, certificates)[0]
        try:
            private = serialization.load_pem_private_key(secret, password=None)
        except (ValueError, TypeError) as error:
            rule = f"{key}: must hold a PEM key without password"
            found = "one with a password" if isinstance(error, TypeError) else _without(secret)
            raise CredentialsError(f"{rule}, got {found}") from None
        if private.public_key() != leaf.public_key():
            rule = f"{chain}: must be the certificate of the key {key}"
            raise CredentialsError(f"{rule}, got {leaf.subject.rfc4514_string()} of another one")
        if client_ca is not None and authorities is not None:
            _certificates(client_ca, authorities)
        return KeyPair(secret, certificates, authorities)

    return WatchedFile(key, parse, chain, *([client_ca] if client_ca is not None else []))


def client_identity(pem: bytes) -> Identity:
    """Return the identity `cert:NAME` of a verified client certificate, valid until it expires.

    The name is the certificate's only URI (a SPIFFE id), else its common name, else its first DNS
    name. Raises UnauthenticatedError if it has none of them.
    """
    name, expires_at = _subject(pem)
    if not name:
        raise UnauthenticatedError(
            "a client certificate must have one URI, a common name or a DNS name, got none of them"
        )
    return Identity(identity_name("cert", name), Role.USER, expires_at)


@functools.lru_cache(_MAX_CACHED)
def _subject(pem: bytes) -> tuple[str, float]:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        expires_at = certificate.not_valid_after_utc.timestamp()
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        common = [str(each.value) for each in names]
        try:
            others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            uris = others.value.get_values_for_type(x509.UniformResourceIdentifier)
            hosts = others.value.get_values_for_type(x509.DNSName)
        except x509.ExtensionNotFound:
            uris, hosts = [], []
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise UnauthenticatedError(
            "a client certificate must be an X.509 certificate, got one that cannot be parsed"
        ) from None
    candidates = [*(uris if len(uris) == 1 else ()), *common[:1], *hosts[:1]]
    return next(filter(None, candidates), ""), expires_at


def self_signed(path: Path, certificate: Path) -> bool:
    """Make a key and a certificate in one file unless it exists; return whether it was made.

    A copy of the certificate alone is left in `certificate`, for clients. Raises CredentialsError
    when they cannot be written, or when others may read the key.
    """
    is_new = write_once(path, _make_self_signed())
    require_private(path)
    pem = read_credentials(path)[0]
    leaf = _certificates(path, pem)[0].public_bytes(serialization.Encoding.PEM)
    try:
        if not certificate.exists() or certificate.read_bytes() != leaf:
            certificate.write_bytes(leaf)
    except OSError as error:
        raise CredentialsError(f"{certificate}: {error.strerror}") from None
    return is_new


def fingerprint(pem: bytes) -> str:
    """Return `sha256:HEX` of the first certificate of a chain, as clients pin it."""
    leaf = x509.load_pem_x509_certificates(pem)[0]
    return f"sha256:{leaf.fingerprint(hashes.SHA256()).hex()}"


def _certificates(path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise CredentialsError(f"{path}: must hold PEM certificates, got {_without(pem)}") from None


def _without(data: bytes) -> str:
    return f"{len(data)} bytes without one"


def _make_self_signed() -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SELF_SIGNED_NAME)])
    hosts = dict.fromkeys((SELF_SIGNED_NAME, "localhost", *_host_name()))
    loopback = [ipaddress.ip_address(each) for each in ("127.0.0.1", "::1")]
    names = [*map(x509.DNSName, hosts), *map(x509.IPAddress, loopback)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=SELF_SIGNED_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return encoded + certificate.public_bytes(serialization.Encoding.PEM)


def _host_name() -> list[str]:
    name = socket.gethostname()
    return [name] if name and name.isascii() else []
