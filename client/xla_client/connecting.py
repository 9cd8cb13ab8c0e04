"""Connecting to a server."""

import asyncio
from typing import TypedDict, Unpack

from xla_client._access import TokenSource, resolve
from xla_client._public import brief
from xla_client._transport import ChannelCredentials, Metadata, Transport, client_name
from xla_client.client import Client
from xla_client.tls import Tls
from xla_contract import malloc
from xla_contract.errors import InvalidArgumentError
from xla_contract.targets import normalized


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
) -> Client:
    """Connect to a server, usually as a context manager: `with connect("host:1685") as client`.

    `target` is "host:port" or "unix:/path"; without a port it means 1685. `credentials` (`Tls`, or
    grpc's own) turn on TLS.
    `token` says who calls: a bearer token, the path of a file with one, which may be renewed there,
    or a function that gives the one to use now. Where there is no such argument, the environment
    says what to use (XLA_CLIENT_TOKEN_FILE, XLA_CLIENT_CA_FILE ...), else the file
    ~/.config/xla-client/config.toml, by target. A token goes to other machines by TLS alone, unless
    the connection is `insecure`.
    `metadata` is sent with every call, `timeout` is the deadline of calls that state none (None: no
    deadline).
    `session` is the `Client.session_token` of a session to go on with (see `Client.describe` and
    `adopt`); NotFoundError when that has ended, InvalidArgumentError for what is no token.
    `shared_memory` says whether large values may pass through memory shared with a server on this
    host, which is tried by default (unless XLA_CLIENT_SHARED_MEMORY is 0 in the environment).
    `connect_timeout` is how many seconds to wait for a server that is not there yet. Without it,
    what grpc says of the target is raised at once, and only a server that listens and does not
    answer is waited for, 10 s.
    Raises UnavailableError, with grpc's cause, when there is no connection or the server is another
    than `credentials` say. It raises UnauthenticatedError when the server does not know who calls,
    PermissionDeniedError when the caller may not, and InvalidArgumentError for credentials that
    cannot be used.
    """
    if session is not None and not session:
        raise InvalidArgumentError(
            "session must be the token of a session, got an empty string",
            hint="None opens a new one",
        )
    malloc.tune()
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
        metadata=metadata,
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
    """The options of `connect`, which says what they are."""

    credentials: ChannelCredentials | Tls | None
    token: TokenSource | None
    metadata: Metadata
    timeout: float | None
    connect_timeout: float | None
    session: str | None
    shared_memory: bool | None
    insecure: bool


async def aconnect(target: str, **options: Unpack[ConnectOptions]) -> Client:
    """Connect as `connect` does, without blocking: `async with await aconnect(...) as client`.

    Where this is cancelled, a client that came about all the same is closed.
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
