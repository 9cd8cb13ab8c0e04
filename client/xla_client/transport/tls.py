"""TLS of a connection: which servers are trusted, and the client's own certificate."""

import dataclasses
import os
from typing import TypeAlias

import grpc

from xla_client.coercion.parameters import parameter_class
from xla_contract.errors import InvalidArgumentError, UnavailableError

ChannelCredentials: TypeAlias = grpc.ChannelCredentials
parameter_class(grpc.ChannelCredentials)

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
        # Imported here, as most clients pin no certificate.
        from xla_contract.pinned_certificates import pinned_certificate

        try:
            pem, name = pinned_certificate(target, self.fingerprint, self.cert_file, self.key_file)
        except UnavailableError as error:
            raise error.at("connect") from error.__cause__
        # The pinned certificate is the only trusted one, so its name proves nothing more.
        return TlsMaterial(pem.encode(), key, chain, name)


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


def new_channel(
    target: str,
    credentials: ChannelCredentials | Tls | None,
    options: tuple[tuple[str, int | str], ...],
) -> grpc.Channel:
    """Return a channel with these credentials and options; in plaintext for None."""
    if credentials is None:
        return grpc.insecure_channel(target, options=options)
    if isinstance(credentials, Tls):
        material = credentials.material(target)
        if material.server_name:
            options += (("grpc.ssl_target_name_override", material.server_name),)
        credentials = grpc.ssl_channel_credentials(material.roots, material.key, material.chain)
    return grpc.secure_channel(target, credentials, options=options)
