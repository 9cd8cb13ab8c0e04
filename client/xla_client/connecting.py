"""Connecting to a server."""

import asyncio
from typing import TypedDict, Unpack

from xla_client.client import Client
from xla_client.coercion.parameters import brief
from xla_client.transport.credentials import TokenSource, resolve
from xla_client.transport.tls import ChannelCredentials, Tls
from xla_client.transport.transport import Metadata, Transport, client_name
from xla_contract.errors import InvalidArgumentError
from xla_contract.targets import normalized, routing_metadata
from xla_host import allocator


@brief
def connect(
    target: str,
    *,
    credentials: ChannelCredentials | Tls | None = None,
    token: TokenSource | None = None,
    metadata: Metadata = (),
    timeout: float | None = None,
    connect_timeout: float | None = None,
    session: str | None = None,
    shared_memory: bool | None = None,
    insecure: bool = False,
    routing_key: str | None = None,
) -> Client:
    """Open a session on a server; the client is usually a context manager.

    The usual form is `with connect("host:1685") as client: ...`.

    Without `token` and `credentials` the environment says what to use (XLA_CLIENT_TOKEN_FILE,
    XLA_CLIENT_CA_FILE ...), else the file ~/.config/xla-client/config.toml, by target.

    Args:
        target: "host:port" or "unix:/path"; without a port it means 1685.
        credentials: `Tls` or grpc's own credentials, which turn on TLS.
        token: The identity of the caller: a bearer token, the path of a file with one, which may be
            renewed there, or a function that returns the one to use now.
        metadata: Metadata that is sent with every call.
        timeout: The deadline of calls that state none, in seconds; None for no deadline.
        connect_timeout: Seconds to wait for a server that does not listen yet. Without it, grpc's
            error is raised at once; only a server that listens and does not answer is waited for,
            10 s.
        session: The `Client.session_token` of a session to resume; see `Client.describe` and
            `Client.adopt`.
        shared_memory: Whether large values may pass through memory shared with a server on this
            host, which is tried by default (unless XLA_CLIENT_SHARED_MEMORY is 0 in the
            environment).
        insecure: Whether a token may go to other machines without TLS.
        routing_key: The metadata `xla-routing-key` of every call, by which a load balancer chooses
            the server; None for a random one. With `session` it must be the `Client.routing_key` of
            the client that opened the session.

    Returns:
        The client.

    Raises:
        UnavailableError: There is no connection, or the server is another than `credentials` say;
            grpc says why.
        UnauthenticatedError: The server cannot identify the caller.
        PermissionDeniedError: The caller may not use the server.
        NotFoundError: The session has ended.
        InvalidArgumentError: The credentials cannot be used, `session` is no token, or
            `routing_key` is not 1 to 128 printable characters of ASCII.
    """
    if session is not None and not session:
        raise InvalidArgumentError(
            "session must be the token of a session, got an empty string",
            hint="None opens a new one",
        )
    allocator.tune()
    try:
        target = normalized(target)
    except InvalidArgumentError as error:
        raise error.at("connect") from None
    tls = credentials if isinstance(credentials, Tls) else None
    access = resolve(
        target,
        has_credentials=credentials is not None,
        tls=tls,
        token=token,
        insecure=insecure,
    )
    transport = Transport(
        target,
        credentials=access.tls if credentials is None else credentials,
        metadata=(*metadata, routing_metadata(routing_key)),
        timeout=timeout,
        token=access.token,
    )
    try:
        transport.open(connect_timeout, session or "")
    except BaseException:  # Ctrl-C while waiting must not leave the channel open either.
        transport.close()
        raise
    return Client(transport, shared_memory)


def preload() -> None:
    """Load what grpc and this package leave to the first connection; connects to nothing."""
    client_name()
    Transport("localhost", credentials=None, metadata=(), timeout=None).close()


class ConnectOptions(TypedDict, total=False):
    """The options of `connect`, which documents them."""

    credentials: ChannelCredentials | Tls | None
    token: TokenSource | None
    metadata: Metadata
    timeout: float | None
    connect_timeout: float | None
    session: str | None
    shared_memory: bool | None
    insecure: bool
    routing_key: str | None


async def aconnect(target: str, **options: Unpack[ConnectOptions]) -> Client:
    """Open a session as `connect` does, without blocking the event loop.

    The usual form is `async with await aconnect("host:1685") as client: ...`.

    Args:
        target: The address, as for `connect`.
        options: The other arguments of `connect`.

    Returns:
        The client.

    Raises:
        CancelledError: The coroutine was cancelled; a client that came about all the same is
            closed.
    """
    connecting = asyncio.ensure_future(asyncio.to_thread(connect, target, **options))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        connecting.add_done_callback(_close_result)
        raise


def _close_result(connecting: "asyncio.Future[Client]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()
