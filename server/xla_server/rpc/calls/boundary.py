"""Unary rpcs, and the boundary around every call."""

import dataclasses
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, EncodeError

from xla_contract.descriptors import Rpc
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
    XlaError,
)
from xla_contract.wire.literals.parsed_size import SMALL_BYTES, check_parse_size
from xla_host import allocator
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.active_calls import ActiveCalls
from xla_server.rpc.calls.completion import at_end
from xla_server.rpc.calls.response_memory import (
    LARGE_BYTES,
    Response,
    discard,
    reservation_of,
)
from xla_server.rpc.errors import client_error, status_of, status_proto_of
from xla_server.rpc.metadata import session_token
from xla_server.rpc.metrics import CallMetrics
from xla_server.rpc.peers.callers import Callers
from xla_server.sessions.session_registry import SessionRegistry

_LOG = logging.getLogger(__name__)

Method: TypeAlias = Callable[[Any, Any, Cancellation], Response]
"""Decodes a request, calls the session's service, encodes the response; raises XlaError.

Its arguments are the session, the request, and the call's cancellation."""

Decode: TypeAlias = Callable[[bytes], Any]
"""Parser of a method's request; raises DecodeError for malformed bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """Checks and conversions for all calls of a server: identities, sizes, status of errors."""

    sessions: SessionRegistry
    calls: ActiveCalls
    max_bytes: int
    callers: Callers = dataclasses.field(default_factory=Callers)
    metrics: CallMetrics = dataclasses.field(default_factory=CallMetrics)

    def parse(self, rpc: Rpc, request: bytes, decode: Decode | None = None) -> Any:
        """The request, by protobuf or `decode`.

        Raises InvalidArgumentError for malformed bytes, and as `check_parse_size`.
        """
        try:
            if decode is not None:
                return decode(request)
            if len(request) > SMALL_BYTES:
                check_parse_size(rpc.request, request)
            return rpc.request.FromString(request)
        except DecodeError as error:
            raise InvalidArgumentError(
                f"{rpc.name}: the request must be a {rpc.request.DESCRIPTOR.full_name} "
                f"message, got {len(request)} bytes that are none: {error}",
                op=rpc.name,
            ) from None

    def serialize(self, rpc: Rpc, response: Response) -> bytes:
        """The bytes of a response.

        Raises ResourceExhaustedError, and drops the response, if it exceeds the limit of a message.
        """
        data: bytes | None
        if isinstance(response, bytes):
            data = response
        else:
            try:
                data = response.SerializeToString()
            except EncodeError:
                data = None
        if data is None or len(data) > self.max_bytes:
            discard(response)
            size = "more than any message" if data is None else f"{len(data)} bytes"
            raise ResourceExhaustedError(
                f"a message may take {self.max_bytes} bytes, got a response of {size}",
                op=rpc.name,
                hint="Slice the value on the device and transfer the parts.",
            )
        return data

    def status(self, rpc: Rpc, error: BaseException, peer: str, started: float) -> grpc.Status:
        """The status of an error of a call that began at `started`, by the monotonic clock.

        The cause of a server's fault is logged.
        """
        return status_of(self._logged_error(rpc, error, peer, started))

    def status_bytes(self, rpc: Rpc, error: BaseException, peer: str, started: float) -> bytes:
        """Return `status` as a serialized google.rpc.Status."""
        status = status_proto_of(self._logged_error(rpc, error, peer, started))
        data: bytes = status.SerializeToString()
        return data

    def _logged_error(self, rpc: Rpc, error: BaseException, peer: str, started: float) -> XlaError:
        """Return the error that the client gets, after logging and counting it."""
        logged = client_error(error, rpc.name).at(rpc.name)
        self.metrics.ended(rpc, started, logged.code.name)
        seconds = time.monotonic() - started
        facts = {"rpc": rpc.name, "code": logged.code.name, "peer": peer, "seconds": seconds}
        if logged.incident:
            _LOG.error("incident %s", logged.incident, exc_info=error, extra=facts)
        elif isinstance(logged, CancelledError | DeadlineExceededError):
            _LOG.debug("%s", logged.message, extra=facts)
        else:
            _LOG.info("%s", logged.message, extra=facts)
        # The traceback's frames refer to the call and the request, and some to the error: a cycle,
        # which would keep all of it until a garbage collection.
        error.__traceback__ = None
        return logged


@dataclasses.dataclass(slots=True, eq=False)
class Handler:
    """One unary rpc: from the bytes of a request to those of a response.

    grpc would answer INTERNAL for a request that it cannot parse, before the server's code sees it.
    So grpc passes bytes, which are parsed here.
    """

    rpc: Rpc
    method: Method
    boundary: Boundary
    experimental_thread_pool: ThreadPoolExecutor
    """The pool of the behaviour. Read by grpc, which otherwise runs all of them in one."""
    has_session: bool = True
    is_stateless: bool = False
    decode: Decode | None = None

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one call; any exception becomes a status and goes no further."""
        started = time.monotonic()
        is_debug = _LOG.isEnabledFor(logging.DEBUG)
        if is_debug:
            _LOG.debug("called", extra={"rpc": self.rpc.name, "peer": context.peer()})
        status = None
        response = b""
        try:
            response = self._answer(request, context)
            self.boundary.metrics.ended(self.rpc, started)
            size = len(request) + len(response)
            if size >= allocator.LARGE_BYTES:
                allocator.transferred(size)
        except BaseException as error:
            # The boundary: grpc would send the client the text of any exception that passes it.
            status = self.boundary.status(self.rpc, error, context.peer(), started)
        if status is not None:
            context.abort_with_status(status)
        if is_debug:
            facts = {"rpc": self.rpc.name, "peer": context.peer()}
            _LOG.debug("answered", extra=facts | {"seconds": time.monotonic() - started})
        return response

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        boundary = self.boundary
        if not self.has_session:
            with boundary.calls.running(context) as cancellation:
                caller = boundary.callers.of(context, self.rpc.path)
                response = self.method(caller, boundary.parse(self.rpc, request), cancellation)
                return boundary.serialize(self.rpc, response)
        token = session_token(context.invocation_metadata())
        path = self.rpc.path
        caller = boundary.callers.of(context, path, with_connection=token is None)
        # The context managers `using`, `running` and `calling` would cost a tenth of a small call.
        session = boundary.sessions.enter(token, caller, is_stateless=self.is_stateless)
        service = session.service
        cancellation = boundary.calls.begin(context)
        try:
            service.begin_call(cancellation)
            parsed = boundary.parse(self.rpc, request, self.decode)
            response = self.method(service, parsed, cancellation)
            data = boundary.serialize(self.rpc, response)
            if len(data) >= LARGE_BYTES:
                at_end(
                    context, reservation_of(service.response_memory, response, len(data)).release
                )
            return data
        finally:
            service.end_call(cancellation)
            boundary.calls.end(cancellation)
            boundary.sessions.leave(session)
