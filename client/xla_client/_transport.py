"""The client's only knowledge of grpc: a channel, calls by name, and errors as exceptions."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from xla_contract import errors
from xla_contract.descriptors import RPCS
from xla_contract.errors import (
    ERROR_BY_CODE,
    CancelledError,
    DeadlineExceededError,
    StatusCode,
    UnavailableError,
    UnknownError,
    XlaError,
)

ChannelCredentials: TypeAlias = grpc.ChannelCredentials
"""Made by `grpc.ssl_channel_credentials` and its kin."""

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Headers sent with every call."""

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)
_ERROR_DOMAIN = "xla-service"
_METADATA_FIELDS = ("op", "instruction", "hint", "incident")

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
    ) -> None:
        self.target = target
        self.timeout = timeout
        self._metadata = tuple(metadata)
        self._channel = (
            grpc.insecure_channel(target, options=_OPTIONS)
            if credentials is None
            else grpc.secure_channel(target, credentials, options=_OPTIONS)
        )
        self._calls = {
            rpc.name: self._channel.unary_unary(
                rpc.path,
                request_serializer=rpc.request.SerializeToString,
                response_deserializer=rpc.response.FromString,
            )
            for rpc in RPCS
        }
        self._closed = False

    def wait_until_ready(self, timeout: float) -> None:
        """Wait for the connection; raises UnavailableError when it does not come about."""
        ready = grpc.channel_ready_future(self._channel)
        try:
            ready.result(timeout)
        except grpc.FutureTimeoutError as error:
            ready.cancel()
            raise UnavailableError(
                f"connect: a server must listen at the target, got no answer from {self.target} "
                f"in {timeout} s",
                op="connect",
                hint="is the server up (xla-server serve), and do both ends agree about TLS?",
            ) from error

    def call(self, name: str, request: Message, timeout: float | None = None) -> Any:
        """Make a call and wait for its response; raises XlaError.

        `timeout` in seconds becomes the call's deadline; None takes the client's own.
        """
        self._check_open(name)
        try:
            return self._calls[name](
                request, timeout=self._deadline(timeout), metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise _exception(name, error) from error

    def start(self, name: str, request: Message, timeout: float | None = None) -> Pending[Any]:
        """Make a call without waiting."""
        self._check_open(name)
        call = self._calls[name].future(
            request, timeout=self._deadline(timeout), metadata=self._metadata
        )
        return Pending(name, call)

    def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        self._closed = True
        self._channel.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _deadline(self, timeout: float | None) -> float | None:
        return self.timeout if timeout is None else timeout

    def _check_open(self, name: str) -> None:
        if self._closed:
            raise UnavailableError(f"{name}: the client must be open, got a closed one", op=name)


def _exception(rpc: str, error: grpc.RpcError) -> XlaError:
    """The exception the server raised, or the one that says what happened on the way."""
    call: Any = error
    code = StatusCode(call.code().value[0])
    kind = ERROR_BY_CODE.get(code, UnknownError)
    message = call.details() or code.name
    info = _error_info(call)
    if info is None:
        return kind(f"{rpc}: {message}", op=rpc)
    named = getattr(errors, info.reason, None)
    # A newer server may name a class that is not known here; the code then decides.
    if isinstance(named, type) and issubclass(named, kind):
        kind = named
    place = {field: info.metadata.get(field, "") for field in _METADATA_FIELDS}
    return kind(message, **place)


def _error_info(call: Any) -> error_details_pb2.ErrorInfo | None:
    try:
        status = rpc_status.from_call(call)
    except ValueError:
        return None
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == _ERROR_DOMAIN:
            return info
    return None
