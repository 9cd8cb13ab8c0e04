"""The gate of all calls: authentication by credentials, then authorisation.

A call is checked twice. First when its headers arrive, before it gets a slot or its request is
read, so that a client without credentials uses no resources; this depends on `grpc_internals`.
Then in its handler, which needs the identity, through grpc's public interface alone.
"""

from collections.abc import Sequence
from typing import Any

import grpc

from xla_contract.errors import UnauthenticatedError, XlaError
from xla_server.identity.authenticator import ANYBODY, Authenticator, Sources
from xla_server.identity.authorise import authorise
from xla_server.identity.identity import Identity
from xla_server.rpc.peers.addresses import is_unix
from xla_server.rpc.refusals import Refusals

AUTHORIZATION_KEY = "authorization"
"""The metadata key of a bearer token, as HTTP and other gRPC services have it."""

_SCHEME = "bearer"
_CERTIFICATE = "x509_pem_cert"
"""The property of grpc's authentication context with a client certificate that TLS has verified."""


class Gate:
    """Authenticates and authorises calls. Thread-safe."""

    def __init__(self, authenticator: Authenticator | None = None) -> None:
        """Without an authenticator every client may call."""
        self.authenticator = authenticator or Authenticator(Sources())
        self.refusals = Refusals()

    def admit(self, context: grpc.ServicerContext, path: str) -> Identity:
        """Return the identity of a call of the rpc at `path`.

        Raises UnauthenticatedError without valid credentials, PermissionDeniedError if the role is
        too low.
        """
        identity = self.identify(context)
        authorise(identity, path)
        return identity

    def identify(self, context: grpc.ServicerContext) -> Identity:
        """Return the identity of a call.

        A bearer token takes precedence over the connection's credentials, which may be those of a
        gateway. Raises UnauthenticatedError.
        """
        known = self.authenticator
        if known.has_tokens:
            token = bearer_token(context.invocation_metadata())
            if token is not None:
                return known.of_token(token)
        if known.sources.trusts_sockets and is_unix(context.peer()):
            return known.of_socket()
        if known.is_open:
            return ANYBODY
        if known.sources.has_certificates:
            properties: Any = context.auth_context()
            for pem in properties.get(_CERTIFICATE, ()):
                return known.of_certificate(pem)
        raise UnauthenticatedError(
            "a call must carry credentials, got none",
            hint="Use connect(target, token=...), or send the header `authorization: Bearer TOKEN`."
            if known.has_tokens
            else "Connect with a client certificate.",
        )

    def examine(self, context: grpc.ServicerContext, path: str) -> Identity | grpc.Status:
        """Return the identity of a call, or the status of its refusal."""
        try:
            return self.admit(context, path)
        except XlaError as error:
            return self.refusals.status(error, path, context.peer())


def bearer_token(metadata: Sequence[tuple[str, str | bytes]] | None) -> str | None:
    """Return the bearer token of a call's headers; None without any.

    Raises UnauthenticatedError for several, and for another scheme.
    """
    found = [value for key, value in metadata or () if key == AUTHORIZATION_KEY]
    if not found:
        return None
    if len(found) > 1:
        raise UnauthenticatedError(f"a call must have one header authorization, got {len(found)}")
    value = found[0].decode(errors="replace") if isinstance(found[0], bytes) else found[0]
    scheme, _, token = value.partition(" ")
    if scheme.lower() != _SCHEME or not token.strip():
        raise UnauthenticatedError(
            "the header authorization must be `Bearer TOKEN`, got another scheme or no token"
        )
    return token.strip()
