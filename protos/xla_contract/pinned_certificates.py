"""Fetching of server certificates that clients know by fingerprint, whoever issued them."""

import contextlib
import hashlib
import hmac
import os
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, TypeAlias

from xla_contract.errors import UnavailableError

SCHEME = "sha256:"
"""The beginning of a fingerprint, before hexadecimal digits."""

_File: TypeAlias = str | os.PathLike[str] | None


def pinned_certificate(
    target: str,
    fingerprint: str,
    cert_file: _File = None,
    key_file: _File = None,
    timeout: float = 10.0,
) -> tuple[str, str]:
    """Fetch the certificate of a server, which must have a fingerprint.

    Args:
        target: The address of the server.
        fingerprint: "sha256:HEX" of its certificate.
        cert_file: PEM certificate of the client, for servers that want one.
        key_file: Its PEM key.
        timeout: Seconds for all of it.

    Returns:
        The certificate in PEM, and its first name: what a TLS channel must be told to expect.

    Raises:
        UnavailableError: The server does not answer or has another certificate.
    """
    deadline = time.monotonic() + timeout
    with _connected(target, cert_file, key_file, timeout) as connection:
        # The certificate is not checked yet.
        der = connection.getpeercert(binary_form=True) or b""
    found = f"{SCHEME}{hashlib.sha256(der).hexdigest()}"
    if not hmac.compare_digest(found, fingerprint.lower()):
        raise UnavailableError(
            f"the server at {target} must have the certificate {fingerprint}, got {found}",
            hint="Unless the server has a new certificate, this is another server.",
        )
    pem = ssl.DER_cert_to_PEM_cert(der)
    # Python decodes the names of trusted certificates only.
    # A timeout of 0 would not wait at all.
    left = max(0.001, deadline - time.monotonic())
    with _connected(target, cert_file, key_file, left, pem) as connection:
        parsed: Any = connection.getpeercert() or {}
    names = parsed.get("subjectAltName", ())
    hosts = [name for kind, name in names if kind == "DNS"]
    return pem, next(iter(hosts or [name for _, name in names]), "")


@contextlib.contextmanager
def _connected(
    target: str, cert_file: _File, key_file: _File, timeout: float, trusted: str | None = None
) -> Iterator[ssl.SSLSocket]:
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
        if cert_file is not None:
            context.load_cert_chain(cert_file, key_file)
        with (
            socket.create_connection((host, int(port)), timeout) as connection,
            context.wrap_socket(connection, server_hostname=host or None) as wrapped,
        ):
            yield wrapped
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"a server must speak TLS at the target, got no certificate from {target}: {error}"
        ) from error
