"""Calls of a server from the command line: one channel, and a session if one is needed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from xla_contract.descriptors import EXTENSION, SERVICE, Rpc, rpcs_of
from xla_contract.errors import (
    ERROR_BY_CODE,
    SessionEndedError,
    StatusCode,
    UnavailableError,
    UnimplementedError,
    UnknownError,
    XlaError,
)
from xla_contract.pinned_certificates import pinned_certificate
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.targets import routing_metadata
from xla_server.app.calling.credentials import ClientCredentials

_ANY_SIZE: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]
_HINTS = {
    "WRONG_VERSION_NUMBER": "The server speaks plaintext: leave the flags of TLS out.",
    "CERTIFICATE_VERIFY_FAILED": "Give --ca-file with the certificate's authority, or "
    "--fingerprint as the server's log has it.",
    "Socket closed": "If the server has TLS, give --fingerprint, --ca-file or --tls.",
}
_RPCS: dict[str, Rpc] = {rpc.name: rpc for each in (SERVICE, EXTENSION) for rpc in rpcs_of(each)}


class Remote:
    """A connection to a server, with its unary rpcs by name; a context manager that closes it."""

    def __init__(self, target: str, credentials: ClientCredentials, timeout: float | None) -> None:
        """Make the channel to HOST:PORT or unix:PATH; each call may take `timeout` seconds, if any.

        Raises OSError for files that cannot be read, and UnavailableError if the server has
        another certificate than the one pinned.
        """
        self._target = target
        self._timeout = timeout
        # All calls of a session must reach one server behind a load balancer.
        self._metadata = [routing_metadata()]
        if credentials.token:
            self._metadata.append(("authorization", f"Bearer {credentials.token}"))
        self._channel = open_channel(target, credentials, timeout)

    def __enter__(self) -> "Remote":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def call(self, name: str, request: Any) -> Any:
        """Call the unary rpc of a name; raises the XlaError of its status."""
        rpc = _RPCS[name]
        method: Any = self._channel.unary_unary(
            rpc.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=rpc.response.FromString,
        )
        try:
            return method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise _error_of(error, name, self._target) from None

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Have all calls of the block belong to a session, which ends with it."""
        opened = self.call("OpenSession", extension_pb2.OpenSessionRequest(client="xla-run"))
        self._metadata.append(("xla-session", opened.token))
        try:
            yield
        finally:
            # A server that is gone has ended the session by itself.
            with contextlib.suppress(XlaError):
                self.call("CloseSession", extension_pb2.CloseSessionRequest())
            self._metadata.pop()


def connection_hint(cause: str) -> str:
    """Return the flags to change if there is no connection, by grpc's cause; empty if unknown."""
    return next((hint for part, hint in _HINTS.items() if part in cause), "")


def _error_of(error: Any, name: str, target: str) -> XlaError:
    code = StatusCode(error.code().value[0])
    message, hint = error.details() or code.name, ""
    status = rpc_status.from_call(error)
    if status is None and code is StatusCode.UNAVAILABLE:
        return UnavailableError(
            f"no server answers at {target}: {message}", hint=connection_hint(message)
        )
    if status is None and code is StatusCode.UNIMPLEMENTED:
        return UnimplementedError(f"the server at {target} must have the rpc {name}: {message}")
    info = error_details_pb2.ErrorInfo()
    for detail in status.details if status is not None else ():
        if detail.Unpack(info):
            hint = info.metadata.get("hint", "")
    if code is StatusCode.UNAUTHENTICATED and info.reason != SessionEndedError.__name__:
        hint = "Give --token-file, or --cert-file with --key-file, or set XLA_CLIENT_TOKEN."
    return ERROR_BY_CODE.get(code, UnknownError)(message, hint=hint)


def open_channel(
    target: str, credentials: ClientCredentials, timeout: float | None
) -> grpc.Channel:
    """Return a channel to a target; raises as `Remote`.

    A pinned certificate is fetched first, in at most `timeout` seconds.
    """
    if not credentials.speaks_tls:
        return grpc.insecure_channel(target, options=_ANY_SIZE)
    options = list(_ANY_SIZE)
    files = credentials.ca_file, credentials.cert_file, credentials.key_file
    roots, chain, key = (Path(each).read_bytes() if each else None for each in files)
    if credentials.fingerprint:
        own = credentials.cert_file or None, credentials.key_file or None
        seconds = 10.0 if timeout is None else timeout
        pem, name = pinned_certificate(target, credentials.fingerprint, *own, seconds)
        roots = pem.encode()
        # The pinned certificate is the only trusted one, so its name proves nothing more.
        options.append(("grpc.ssl_target_name_override", name))
    made = grpc.ssl_channel_credentials(roots, key, chain)
    return grpc.secure_channel(target, made, options=options)
