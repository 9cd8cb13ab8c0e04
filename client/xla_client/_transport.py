"""The client's only knowledge of grpc: a channel, calls by name, and errors as exceptions."""

import functools
import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message
from grpc_status import rpc_status

from xla_client._conversation import BrokenOffError, Conversation, Exchanges
from xla_client._direct_stream import open_direct_stream
from xla_client._errors import error_of, error_of_status
from xla_client._interrupts import HeldBack
from xla_client._stream import ClientStream
from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    XlaError,
)
from xla_contract.literal_decoding import decode_literal_message
from xla_contract.stubs import xla_extension_pb2

ChannelCredentials: TypeAlias = grpc.ChannelCredentials
"""Made by `grpc.ssl_channel_credentials` and its kin."""

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Headers sent with every call."""

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)
KEEPALIVE_SECONDS = 30.0, 10.0
"""How long a connection with calls under way may be silent before the server is asked whether it is
there, and how long it may take to answer."""

_SESSION_KEY = "xla-session"
_CLIENT = f"xla_client {importlib.metadata.version('xla-service')}"
_CAPABILITIES: list[Any] = [number for number in xla_extension_pb2.Capability.values() if number]

_NO_LIMIT = 1e9
"""Seconds that are no limit: much more of them is a time in the past to grpc."""

_REPEATABLE = frozenset({"GetShape"})
"""Calls that may be made again when nobody knows whether they were made."""

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
"""Calls that are made on a stream: their answers are small."""

_CONVERSED_BYTES = 1 << 18
"""The largest request that is sent on the stream."""

M = TypeVar("M")


class Pending(Generic[M]):
    """A call under way."""

    def __init__(self, name: str, call: Any) -> None:
        self._name = name
        self._call = call

    def result(self, timeout: float | None = None) -> M:
        """Wait for the response; raises XlaError, DeadlineExceededError after `timeout` seconds.

        Running out of `timeout` leaves the call going.
        """
        try:
            response: M = self._call.result(timeout)
        except grpc.FutureTimeoutError as error:
            raise DeadlineExceededError(
                f"the answer must come within the time given, got none in {timeout} s",
                op=self._name,
            ) from error
        except grpc.FutureCancelledError as error:
            raise CancelledError(f"{self._name}: the caller cancelled the call") from error
        except grpc.RpcError as error:
            raise _exception(self._name, error) from error
        return response

    def done(self) -> bool:
        """Whether the call has finished, well or not."""
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
        credentials: ChannelCredentials | None,
        metadata: Metadata,
        timeout: float | None,
        keepalive: tuple[float, float] = KEEPALIVE_SECONDS,
    ) -> None:
        self.target = target
        self.timeout = timeout
        self._metadata = tuple(metadata)
        options = (*_OPTIONS, *keepalive_options(*keepalive))
        self._channel = (
            grpc.insecure_channel(target, options=options)
            if credentials is None
            else grpc.secure_channel(target, credentials, options=options)
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
        self._conversation: Conversation | None = None
        self._closed = False
        self._instead = "a closed one"
        self.session: xla_extension_pb2.OpenSessionResponse | None = None
        """What the server said of the session; None where it has none to offer."""
        self.capabilities: frozenset[int] = frozenset()
        """What the server has beside the rpcs of XlaService."""

    def open(self, timeout: float, resume_token: str = "") -> None:
        """Connect and open a session, or go on with one, in one call.

        A server without sessions has one for the connection. Raises UnavailableError when the
        connection does not come about, NotFoundError when there is no live session to go on with,
        InvalidArgumentError for what cannot be a token, and UnimplementedError for one that is
        given to a server without sessions.
        """
        request = xla_extension_pb2.OpenSessionRequest(
            resume_token=resume_token, client=_CLIENT, capabilities=_CAPABILITIES
        )
        try:
            session = self._calls["OpenSession"](
                request, timeout=timeout, metadata=self._metadata, wait_for_ready=True
            )
        except grpc.RpcError as error:
            raised = _exception("connect", error)
            if isinstance(raised, UnimplementedError):
                if not resume_token:
                    return
                raise UnimplementedError(
                    "connect: a server must have sessions with tokens to go on with one, got one "
                    f"that has none at {self.target}",
                    op="connect",
                ) from error
            if isinstance(raised, DeadlineExceededError):
                raise UnavailableError(
                    "connect: a server must listen at the target, got no answer from "
                    f"{self.target} in {timeout} s",
                    op="connect",
                    hint="is the server up (xla-server serve), and do both ends agree about TLS?",
                ) from error
            raise raised from error
        self.session = session
        self.capabilities = frozenset(session.capabilities)
        self._metadata = (*self._metadata, (_SESSION_KEY, session.token))
        if xla_extension_pb2.CAPABILITY_CONVERSE in self.capabilities:
            self._conversation = Conversation(self._begin_conversation)
            self._conversation.open()

    def _begin_conversation(self) -> Exchanges:
        path = self._streams["Converse"].path
        direct = open_direct_stream("Converse", self._channel, path, self._metadata, _exception)
        return self.stream("Converse", parse=False) if direct is None else direct

    def stream(
        self,
        name: str,
        request: Message | None = None,
        timeout: float | None = None,
        *,
        parse: bool = True,
    ) -> ClientStream:
        """Begin a streaming call, with its one request where only the server streams.

        `timeout` limits the whole of it; None is no limit. Without `parse` the server's messages
        are given as bytes.
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

        def begin(requests: Any) -> Any:
            source = requests if first is None else first
            return method(source, timeout=timeout, metadata=self._metadata)

        return ClientStream(name, begin, serialize, _exception)

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
        try:
            return self._calls[name](request, timeout=deadline, metadata=self._metadata)
        except grpc.RpcError as error:
            raise _exception(name, error) from error

    def _converse(self, conversation: Conversation, name: str, request: bytes) -> Any:
        """Make a call on the stream; None when it is to be made otherwise."""
        path, deserialize = self._conversed[name]
        try:
            answer = conversation.call(path, request)
        except BrokenOffError as error:
            # Where the session has ended nothing is made twice: an ordinary call says so.
            if name in _REPEATABLE or isinstance(error.__cause__, UnauthenticatedError):
                return None
            raise UnavailableError(
                f"{name}: the connection must last until the answer, got its end: "
                f"{error.__cause__}",
                op=name,
                hint="The server may have made the call.",
            ) from error
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
        # It waits for nobody, and what nobody holds is given up.
        with HeldBack(lambda: None):
            call = self._calls[name].future(request, timeout=deadline, metadata=self._metadata)
        return Pending(name, call)

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
        """Whether `close` was called, or this is another process than that which connected."""
        return self._closed

    def _deadline(self, name: str, timeout: float | None) -> float | None:
        """The seconds a call may take; DeadlineExceededError where it has none.

        grpc would send such a call, and sometimes take its answer.
        """
        seconds = self.timeout if timeout is None else timeout
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


def keepalive_options(quiet: float, patience: float) -> tuple[tuple[str, int], ...]:
    """What lets a channel notice that the server has died without a word; in seconds."""
    return (
        ("grpc.keepalive_time_ms", round(1000 * quiet)),
        ("grpc.keepalive_timeout_ms", round(1000 * patience)),
        # Pings that measure the way, too: while one of them is not answered no other is sent. They
        # may be behind megabytes on a slow line, and get the time that silence has.
        ("grpc.http2.ping_timeout_ms", round(1000 * (quiet + patience))),
        # An open stream on which nobody speaks is how it usually is.
        ("grpc.http2.max_pings_without_data", 0),
    )


def _serialized(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


def _deserializer(rpc: Rpc) -> Callable[[bytes], Any]:
    """What makes a response of its bytes: a LiteralMessage where it carries a literal."""
    if "literal" in rpc.response.DESCRIPTOR.fields_by_name:
        return functools.partial(decode_literal_message, rpc.response)
    return rpc.response.FromString


def _exception(rpc: str, error: grpc.RpcError) -> XlaError:
    """The exception the server raised, or the one that says what happened on the way."""
    call: Any = error
    try:
        details = rpc_status.from_call(call)
    except ValueError:
        details = None
    return error_of(rpc, call.code().value[0], call.details() or "", details)
