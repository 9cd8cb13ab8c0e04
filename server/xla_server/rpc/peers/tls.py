"""TLS of a server's TCP ports, with certificates that follow their files."""

import logging
from typing import Any

import grpc

from xla_server.identity.certificates import KeyPair
from xla_server.identity.watched_file import WatchedFile

_LOG = logging.getLogger(__name__)


def server_credentials(pair: WatchedFile[KeyPair]) -> grpc.ServerCredentials:
    """Return credentials that read the files of `pair` again at each handshake.

    If the pair has an authority, clients must have a certificate of it. Open connections keep their
    certificates.
    """

    def changed() -> Any:
        try:
            has_changed = pair.refresh()
        except Exception:  # grpc would refuse the handshake, and all that follow.
            _LOG.exception("reading certificates again failed")
            return None
        return _configuration(pair.value) if has_changed else None

    credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
        _configuration(pair.value),
        changed,
        require_client_authentication=pair.value.client_ca is not None,
    )
    return credentials


def _configuration(pair: KeyPair) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(pair.key, pair.chain)], root_certificates=pair.client_ca
    )
