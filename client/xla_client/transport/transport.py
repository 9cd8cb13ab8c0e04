"""The client's only knowledge of grpc: a channel, calls by name, and errors as exceptions."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from xla_client.transport.errors import (
    cut_off,
    deadline_in,
    error_of_status,
    exception_of,
    no_server,
    status_of,
)
from xla_client.transport.inline_stream import open_inline_stream
from xla_client.transport.multiplexed_stream import (
    MessageStream,
    MultiplexedStream,
    StreamBrokenError,
)
from xla_client.transport.signal_guard import DeferredInterrupt
from xla_client.transport.stream import ClientStream
from xla_client.transport.tls import ChannelCredentials, Tls, new_channel
from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    PermissionDeniedError,
    SessionEndedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    XlaError,
)
from xla_contract.stubs import xla_extension_pb2
from xla_contract.wire.literals.decoding import decode_literal_message

"""Made by `grpc.ssl_channel_credentials` and its kin."""

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Headers sent with every call."""

_Headers: TypeAlias = tuple[tuple[str, str | bytes], ...]

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # grpc's default is two minutes, in which calls fail although the server is back.
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Channels to one target share a connection by default, and in a forked child that of its parent
    # is still among them: calls on it fail ("Wrong file descriptor generation").
    ("grpc.use_local_subchannel_pool", 1),
)

KEEPALIVE_SECONDS = 30.0, 10.0
"""Seconds of silence, with calls in progress, before a keepalive ping, and the ping's timeout."""

_SESSION_KEY = "xla-session"
_AUTHORIZATION_KEY = "authorization"
_CAPABILITIES: list[Any] = [number for number in xla_extension_pb2.Capability.values() if number]

_NO_LIMIT = 1e9
"""Timeout that means no limit, in seconds: much larger ones are a time in the past to grpc."""

_REPEATABLE = frozenset({"GetShape"})
"""Calls without effects, which are repeated if it is unknown whether the server has run them."""

_CONVERSED = _REPEATABLE | {
    "CancelExecution",
    "DeconstructTuple",
    "DownloadShared",
    "Execute",
    "Launch",
    "Run",
    "TransferToServer",
    "Unpack",
    "Unregister",
    "UploadShared",
    "UploadSharedPieces",
}
"""Calls that are made on the session's stream, as their answers are small."""

_REFUSALS = (UnauthenticatedError, PermissionDeniedError)
"""Errors of the stream that an ordinary call would get, too."""

CONNECT_SECONDS = 10.0
"""Default timeout of the first answer of a listening server, in seconds."""

_OBSTACLE_SECONDS = 1.0
"""Timeout of the second attempt to connect, which finds the reason of the failure, in seconds."""

_CONVERSED_BYTES = 1 << 18
"""Largest request, in bytes, that is sent on the stream."""

M = TypeVar("M")


class Pending(Generic[M]):
    """A call under way, which `ends` at its deadline at the latest (`deadline_in`)."""

    def __init__(self, name: str, call: Any, ends: float) -> None:
        self._name = name
        self._call = call
        self._ends = ends

    def result(self, timeout: float | None = None) -> M:
        """Wait for the response; raises XlaError, DeadlineExceededError after `timeout` seconds.

        Running out of `timeout` leaves the call going.
        """
        try:
            response: M = self._call.result(timeout)
        except grpc.FutureTimeoutError:
            raise DeadlineExceededError(
                f"the answer must come within the time given, got none in {timeout} s",
                op=self._name,
            ) from None
        except grpc.FutureCancelledError:
            raise CancelledError(f"{self._name}: the caller cancelled the call") from None
        except grpc.RpcError as error:
            raise exception_of(self._name, error, self._ends) from None
        return response

    def done(self) -> bool:
        """Return whether the call has finished, successfully or not."""
        return bool(self._call.done())

    def cancel(self) -> bool:
        """Give the call up; False when it had finished before."""
        return bool(self._call.cancel())

    def add_done_callback(self, function: Callable[[], None]) -> None:
        """Call `function` once the call has finished, on a thread of the transport."""
        self._call.add_done_callback(lambda _: function())


class Transport:
    """One channel to one server. Safe to use from several threads."""

    def __init__(
        self,
        target: str,
        *,
        credentials: ChannelCredentials | Tls | None,
        metadata: Metadata,
        timeout: float | None,
        keepalive: tuple[float, float] = KEEPALIVE_SECONDS,
        token: Callable[[], str] | None = None,
    ) -> None:
        """Connect when the first call is made; raises as `Tls.material`.

        `token` returns the bearer token of a call, when the call begins.
        """
        self.target = target
        self.timeout = timeout
        self.metadata = tuple(metadata)
        self._token = token
        self._channel = new_channel(
            target, credentials, (*_OPTIONS, *keepalive_options(*keepalive))
        )
        self._calls = {
            rpc.name: self._channel.unary_unary(
                rpc.path,
                request_serializer=_serialized,
                response_deserializer=_deserializer(rpc),
            )
            for rpc in (*RPCS, *EXTENSION_RPCS)
            if not (rpc.request_streaming or rpc.response_streaming)
        }
        self._streams = {
            rpc.name: rpc
            for rpc in EXTENSION_RPCS
            if rpc.request_streaming or rpc.response_streaming
        }
        self._conversed = {
            rpc.name: (rpc.path[1:], _deserializer(rpc))
            for rpc in (*RPCS, *EXTENSION_RPCS)
            if rpc.name in _CONVERSED
        }
        self._conversation: MultiplexedStream | None = None
        self._closed = False
        self.is_resumed = False
        """True if the session is one that another client opened."""
        self._instead = "a closed one"
        self.session: xla_extension_pb2.OpenSessionResponse | None = None
        """The server's description of the session; None if it has no sessions."""
        self.capabilities: frozenset[int] = frozenset()
        """The rpcs and features of the server beyond XlaService."""

    def open(self, timeout: float | None, resume_token: str = "") -> None:
        """Connect and open or resume a session, in one call.

        With `timeout` this waits as many seconds for a server that does not listen yet; without,
        only for one that listens and has not answered, CONNECT_SECONDS. A server without sessions
        has one for the connection. Raises UnavailableError when the connection does not come
        about, NotFoundError without a live session to resume, InvalidArgumentError for a malformed
        token, and UnimplementedError for a token that is sent to a server without sessions.
        """
        self.is_resumed = bool(resume_token)
        request = xla_extension_pb2.OpenSessionRequest(
            resume_token=resume_token, client=client_name(), capabilities=_CAPABILITIES
        )
        seconds = CONNECT_SECONDS if timeout is None else timeout
        ends = deadline_in(seconds)
        try:
            session = self._calls["OpenSession"](
                request,
                timeout=seconds,
                metadata=self._headers(),
                wait_for_ready=timeout is not None,
            )
        except grpc.RpcError as error:
            raised = exception_of("connect", error, ends)
            if isinstance(raised, UnimplementedError):
                if not resume_token:
                    return
                raise UnimplementedError(
                    "connect: a server must have sessions with tokens to go on with one, got one "
                    f"that has none at {self.target}",
                    op="connect",
                ) from None
            raise self._no_connection(request, error, raised, seconds) or raised from None
        self.use(session)

    def open_another(self) -> xla_extension_pb2.OpenSessionResponse:
        """Open a second session; the calls continue to use the first one. Raises XlaError."""
        request = xla_extension_pb2.OpenSessionRequest(
            client=client_name(), capabilities=_CAPABILITIES
        )
        self._check_open("OpenSession")
        opened: xla_extension_pb2.OpenSessionResponse = self._call(
            "OpenSession", request, CONNECT_SECONDS, self._headers_in(None)
        )
        return opened

    def end(self, session: xla_extension_pb2.OpenSessionResponse) -> None:
        """End a session that is not that of the calls; raises XlaError."""
        request = xla_extension_pb2.CloseSessionRequest()
        self._call("CloseSession", request, CONNECT_SECONDS, self._headers_in(session))

    def use(self, session: xla_extension_pb2.OpenSessionResponse) -> None:
        """Make all calls from now on in this session."""
        self.capabilities = frozenset(session.capabilities)
        # One step: a call has either session.
        self.session = session
        last, self._conversation = self._conversation, None
        if xla_extension_pb2.CAPABILITY_CONVERSE in self.capabilities:
            conversation = MultiplexedStream(self._begin_conversation)
            conversation.open()
            self._conversation = conversation
        if last is not None:
            last.close()

    def _begin_conversation(self) -> MessageStream:
        path = self._streams["Converse"].path
        headers = self._headers()
        exception = functools.partial(self._exception_of_stream, headers, math.inf)
        inline = open_inline_stream("Converse", self._channel, path, headers, exception)
        return self.stream("Converse", parse=False) if inline is None else inline

    def stream(
        self,
        name: str,
        request: Message | None = None,
        timeout: float | None = None,
        *,
        parse: bool = True,
        session: xla_extension_pb2.OpenSessionResponse | None = None,
    ) -> ClientStream:
        """Begin a streaming call, with its one request if only the server streams.

        `timeout` limits the whole of it; None is no limit. Without `parse` the server's messages
        are returned as bytes. `session` is the session of the call if it is not the current one.
        """
        self._check_open(name)
        if timeout is not None:
            timeout = self._deadline(name, timeout)
        rpc = self._streams[name]
        serialize = rpc.request.SerializeToString
        make = self._channel.unary_stream if request is not None else self._channel.stream_stream
        method: Any = make(
            rpc.path, response_deserializer=rpc.response.FromString if parse else None
        )
        first = None if request is None else serialize(request)
        headers = self._headers_in(self.session if session is None else session)

        def begin(requests: Any) -> Any:
            source = requests if first is None else first
            try:
                return method(source, timeout=timeout, metadata=headers)
            except ValueError:
                self._check_open(name)  # grpc's error of a channel that was closed meanwhile
                raise

        exception = functools.partial(self._exception_of_stream, headers, deadline_in(timeout))
        return ClientStream(name, begin, serialize, exception)

    def call(self, name: str, request: Message | bytes, timeout: float | None = None) -> Any:
        """Make a call and wait for its response; raises XlaError.

        The request may be serialized already. A response that carries a literal comes as a
        LiteralMessage.
        `timeout` in seconds becomes the call's deadline; None takes the client's own.
        """
        self._check_open(name)
        deadline = self._deadline(name, timeout)
        # The stream has no deadlines of its own, and would not see that the server is gone.
        if deadline is None and self._conversation is not None and name in self._conversed:
            data = request if isinstance(request, bytes) else request.SerializeToString()
            if len(data) <= _CONVERSED_BYTES:
                answer = self._converse(self._conversation, name, data)
                if answer is not None:
                    return answer
            request = data
        return self._call(name, request, deadline, self._headers())

    def _call(
        self, name: str, request: Message | bytes, timeout: float | None, headers: _Headers
    ) -> Any:
        """Make an ordinary call and wait for its response; raises XlaError."""
        ends = deadline_in(timeout)
        try:
            return self._calls[name](request, timeout=timeout, metadata=headers)
        except grpc.RpcError as error:
            raise exception_of(name, error, ends) from None
        except ValueError:
            self._check_open(name)
            raise

    def _converse(self, conversation: MultiplexedStream, name: str, request: bytes) -> Any:
        """Make a call on the stream; return None if it must be made as an ordinary call."""
        path, deserialize = self._conversed[name]
        try:
            answer = conversation.call(path, request)
        except StreamBrokenError as error:
            # If the session has ended nothing is made twice: an ordinary call raises its error.
            if name in _REPEATABLE or isinstance(error.__cause__, _REFUSALS):
                return None
            # The reason alone: the cause names another rpc, that of the stream.
            raise cut_off(name, str(error.__cause__).rpartition("got its end: ")[2]) from None
        if answer is None:
            return None
        if answer.status:
            raise error_of_status(name, answer.status)
        return deserialize(answer.response)

    def start(
        self, name: str, request: Message | bytes, timeout: float | None = None
    ) -> Pending[Any]:
        """Make a call without waiting."""
        self._check_open(name)
        deadline = self._deadline(name, timeout)
        ends = deadline_in(deadline)
        # The call does not block, and grpc cancels it when its object is garbage collected.
        try:
            with DeferredInterrupt(lambda: None):
                call = self._calls[name].future(request, timeout=deadline, metadata=self._headers())
        except ValueError:
            self._check_open(name)
            raise
        return Pending(name, call, ends)

    def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        self._closed = True
        if self._conversation is not None:
            self._conversation.close()
        self._channel.close()

    def leave_to_parent(self) -> None:
        """Make no more calls, in a child that was forked: the connection is its parent's."""
        self._closed = True
        self._instead = "that of the process this one was forked from: connect again"

    @property
    def closed(self) -> bool:
        """True after `close`, and in a process other than the one that connected."""
        return self._closed

    def _headers(self) -> _Headers:
        """The metadata of a call that begins now."""
        return self._headers_in(self.session)

    def _headers_in(self, session: xla_extension_pb2.OpenSessionResponse | None) -> _Headers:
        """The metadata of a call in a session, or in none."""
        headers = self.metadata
        if session is not None:
            headers = (*headers, (_SESSION_KEY, session.token))
        if self._token is not None:
            headers = (*headers, (_AUTHORIZATION_KEY, f"Bearer {self._token()}"))
        return headers

    def _exception_of_stream(
        self, headers: Metadata, ends: float, rpc: str, error: grpc.RpcError
    ) -> XlaError:
        """Return `exception_of`, or UnavailableError if a newer token has replaced the stream's."""
        raised = exception_of(rpc, error, ends)
        if isinstance(raised, SessionEndedError):
            return raised
        if isinstance(raised, UnauthenticatedError) and self._headers() != headers:
            return UnavailableError(
                f"{rpc}: a stream must have credentials that are valid, got the end of those it "
                "began with; there are new ones",
                op=rpc,
            )
        return raised

    def _no_connection(
        self, request: Message, error: grpc.RpcError, raised: XlaError, seconds: float
    ) -> UnavailableError | None:
        """Return the error to raise if no server answered `open`, with grpc's cause; else None.

        `raised` is the exception of grpc's `error`, `seconds` the time that the call had.
        """
        call: Any = error
        waited, cause = "", ""
        if isinstance(raised, DeadlineExceededError):
            waited = f" in {seconds:g} s"
            cause = self._obstacle(request)
        elif call.code() is grpc.StatusCode.UNAVAILABLE and status_of(call) is None:
            cause = f": {call.details()}"
        else:
            return None
        return no_server(self.target, waited, cause)

    def _obstacle(self, request: Message) -> str:
        """Return why there is no connection, for the end of a sentence; empty if that is unknown.

        grpc reports the reason only to calls that do not wait for a connection.
        """
        try:
            self._calls["OpenSession"](
                request, timeout=_OBSTACLE_SECONDS, metadata=self.metadata, wait_for_ready=False
            )
        except grpc.RpcError as error:
            call: Any = error
            if call.code() is grpc.StatusCode.UNAVAILABLE:
                return f": {call.details()}"
        return ""

    def _deadline(self, name: str, timeout: float | None) -> float | None:
        """The seconds a call may take; DeadlineExceededError if it has none.

        grpc would send such a call, and sometimes take its answer.
        """
        seconds = self.timeout if timeout is None else timeout
        if seconds is not None and not isinstance(seconds, int | float):
            raise TypeError(f"timeout must be a number of seconds or None, got {seconds!r:.100}")
        if seconds is not None and seconds >= _NO_LIMIT:
            return None
        if seconds is not None and seconds <= 0:
            raise DeadlineExceededError(
                f"{name}: a call must have time until its deadline, got {seconds:g} s", op=name
            )
        return seconds

    def _check_open(self, name: str) -> None:
        if self._closed:
            raise UnavailableError(f"{name}: the client must be open, got {self._instead}", op=name)


@functools.cache
def client_name() -> str:
    """The name and version that the server's log has of the client."""
    from importlib.metadata import version  # It takes as long as a tenth of the whole client.

    return f"xla_client {version('xla-service')}"


def keepalive_options(quiet: float, timeout: float) -> tuple[tuple[str, int], ...]:
    """Return the channel options that detect a dead server, from times in seconds."""
    return (
        ("grpc.keepalive_time_ms", round(1000 * quiet)),
        ("grpc.keepalive_timeout_ms", round(1000 * timeout)),
        # Other pings wait for this one, which may be behind megabytes on a slow connection.
        ("grpc.http2.ping_timeout_ms", round(1000 * (quiet + timeout))),
        # A stream without messages is the usual state.
        ("grpc.http2.max_pings_without_data", 0),
    )


def _serialized(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


def _deserializer(rpc: Rpc) -> Callable[[bytes], Any]:
    """Return the function that parses a response: to a LiteralMessage if it has a literal."""
    if "literal" in rpc.response.DESCRIPTOR.fields_by_name:
        return functools.partial(decode_literal_message, rpc.response)
    return rpc.response.FromString
