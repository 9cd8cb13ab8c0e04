"""Converse: many unary calls on one stream.

The thread that has read a message answers the call itself, which saves waking another, and then
continues reading. If an answer takes long, a watchdog lets another thread read, so that a long call
hardly delays the others.
"""

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from xla_contract.descriptors import EXTENSION_RPCS, Rpc
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotBegunError,
    ResourceExhaustedError,
    UnimplementedError,
    XlaError,
)
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.execution.cancellation import Cancellation
from xla_server.identity.authorise import authorise
from xla_server.rpc.calls.active_calls import shutting_down
from xla_server.rpc.calls.boundary import Boundary
from xla_server.rpc.calls.deferred import Responder, raising
from xla_server.rpc.calls.method_table import Deferred, MethodSpec, Unary
from xla_server.rpc.calls.response_memory import LARGE_BYTES, Response, discard, reservation_of
from xla_server.rpc.calls.retry import retry_when_ready
from xla_server.rpc.calls.streaming import Stream
from xla_server.rpc.methods.multiplexing_watchdog import StreamWatchdog
from xla_server.rpc.threads.pools import Pool, Pools
from xla_server.sessions.limits.response_memory import ResponseReservation
from xla_server.sessions.session_registry import SessionEntry

_CONVERSE = next(rpc for rpc in EXTENSION_RPCS if rpc.name == "Converse")

MAX_CALLS = 1024
"""Largest number of calls in progress on one stream."""

MAX_BACKLOG_BYTES = 16 << 20
"""Bytes of responses that wait for the client; beyond them the stream is not read."""

_IN_PLACE = frozenset({Pool.SHORT, Pool.EXECUTE})
"""Kinds of calls that the reading thread answers; others have few threads for all clients."""

Begin: TypeAlias = Callable[[Any, bytes, Cancellation, Responder], None]
"""Begins a call, for a session or a Caller, given the bytes of its request; does not raise."""

_Outgoing: TypeAlias = tuple[bytes, ResponseReservation | None]
"""A response, and its memory reservation until it is sent."""


class MultiplexedStreams:
    """The streams of Converse of one server. `specs` are by paths without the first slash."""

    def __init__(
        self, specs: Mapping[str, tuple[Rpc, MethodSpec]], pools: Pools, boundary: Boundary
    ) -> None:
        self.boundary = boundary
        self.threads = pools.threads[Pool.STREAM]
        self.calls = pools.calls
        self.watch = StreamWatchdog()
        self._open: set[MultiplexedStream] = set()
        self._is_draining = False
        self._lock = threading.Lock()
        self.methods: dict[str, tuple[Rpc, Begin]] = {
            path: (rpc, _begin(rpc, spec, pools, boundary))
            for path, (rpc, spec) in specs.items()
            if isinstance(spec, Unary | Deferred)
        }
        self.without_session = {
            path
            for path, (_, spec) in specs.items()
            if isinstance(spec, Unary) and not spec.has_session
        }

    def serve(self, session: SessionEntry, stream: Stream, cancellation: Cancellation) -> None:
        """Answer the calls of one stream until it ends."""
        multiplexed = MultiplexedStream(self, session, stream, cancellation)
        with self._lock:
            self._open.add(multiplexed)
            is_draining = self._is_draining
        if is_draining:
            multiplexed.drain()
        try:
            with self.boundary.sessions.attached(session), self.watch.watching(multiplexed):
                try:
                    multiplexed.run()
                finally:
                    if self._is_draining or stream.silence.ended_at is not None:
                        # The client may not notice before its next call, and counts as attached
                        # until then. The name only decides when that ends: an address is enough.
                        name = stream.caller.connection or stream.silence.peer
                        self.boundary.sessions.keep(session, name)
        finally:
            with self._lock:
                self._open.discard(multiplexed)

    def drain(self) -> None:
        """Begin no more calls; streams end once the calls in progress have been answered."""
        with self._lock:
            self._is_draining = True
            streams = list(self._open)
        for multiplexed in streams:
            multiplexed.drain()


def _begin(rpc: Rpc, spec: Unary | Deferred, pools: Pools, boundary: Boundary) -> Begin:
    executor = pools.threads[spec.pool]
    decode = spec.decode
    method = retry_when_ready(spec.method, executor) if isinstance(spec, Unary) else spec.method

    def in_place(
        service: Any, request: bytes, cancellation: Cancellation, answer: Responder
    ) -> None:
        try:
            method(service, boundary.parse(rpc, request, decode), cancellation, answer)
        except BaseException as error:
            answer.failed(error)

    def in_pool(
        service: Any, request: bytes, cancellation: Cancellation, answer: Responder
    ) -> None:
        executor.submit_for(service.flow, in_place, service, request, cancellation, answer)

    return in_place if spec.pool in _IN_PLACE or isinstance(spec, Deferred) else in_pool


@dataclasses.dataclass(slots=True, eq=False)
class _Call:
    """One call: its cancellation, and its response, which is sent once."""

    _stream: "MultiplexedStream"
    _number: int
    _rpc: Rpc
    _started: float
    deadline: float | None
    cancellation: Cancellation = dataclasses.field(default_factory=Cancellation)
    _ending: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def finish(self, make_response: Callable[[], Response]) -> bool:
        """Send the result or error of `make_response`, unless the call was answered.

        Returns False if it was.
        """
        if not self._ending.acquire(blocking=False):
            return False
        stream = self._stream
        response = extension_pb2.ConverseResponse(id=self._number)
        serialize = stream.boundary.serialize
        made: Response = b""
        reservation = None
        try:
            made = make_response()
            response.response = serialize(self._rpc, made)
            data = serialize(self._rpc, response)
            if len(data) >= LARGE_BYTES:
                reservation = reservation_of(stream.response_memory, made, len(data))
            stream.boundary.metrics.ended(self._rpc, self._started)
        except BaseException as error:
            discard(made)
            response.ClearField("response")
            response.status = stream.boundary.status_bytes(
                self._rpc, error, stream.peer, self._started
            )
            data = response.SerializeToString()
        stream.answer(self._number, self, data, reservation)
        return True


class MultiplexedStream:
    """One stream: its calls in progress, and the thread that reads."""

    def __init__(
        self,
        shared: MultiplexedStreams,
        session: SessionEntry,
        stream: Stream,
        cancellation: Cancellation,
    ) -> None:
        self.boundary = shared.boundary
        self.answering = 0
        """Number of the request that the reading thread is answering; 0 while it reads."""
        self._shared = shared
        self._session = session
        self._owner = session.token or session.connection
        self.response_memory = session.service.response_memory
        self.peer = stream.silence.peer
        self._stream = stream
        self._cancellation = cancellation
        self._calls: dict[int, _Call] = {}
        self._request_count = 0
        self._unanswered = 0
        self._is_sending = False
        self._backlog: deque[_Outgoing] = deque()
        self._backlog_bytes = 0
        self._has_capacity = threading.Event()
        self._has_capacity.set()
        self._is_half_closed = False
        self._is_draining = False
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        stream.silence.is_idle = lambda: not self._unanswered

    def run(self) -> None:
        """Answer calls until the client has no more and all are answered, or disconnects."""
        try:
            with self._cancellation.calling(self._cancel_all):
                self._read()
                self._over.wait()
                if self._error is not None:
                    raise self._error
        finally:
            self._cancel_all()
            with self._lock:
                # The error's traceback refers to this object: a cycle, which would keep grpc's
                # call.
                self._error = None

    def hand_over(self, number: int) -> None:
        """Have another thread read, if the reading one is still answering this request."""
        with self._lock:
            if self.answering != number or not self._has_capacity.is_set():
                return
            self.answering = 0
        # The threads end only with the server.
        with contextlib.suppress(RuntimeError):
            self._shared.threads.submit(self._read)

    def end_late_calls(self, now: float) -> float | None:
        """End calls whose deadline has passed; return the next deadline."""
        next_deadline = None
        for call in list(self._calls.values()):
            deadline = call.deadline
            if deadline is None:
                continue
            if deadline <= now:
                call.deadline = None
                error = DeadlineExceededError("the deadline of the call passed before it finished")
                # Cancelling may block on the client, and this thread serves all streams.
                with contextlib.suppress(RuntimeError):
                    self._shared.threads.submit(call.cancellation.cancel, error)
            elif next_deadline is None or deadline < next_deadline:
                next_deadline = deadline
        return next_deadline

    def answer(
        self, number: int, call: _Call, response: bytes, reservation: ResponseReservation | None
    ) -> None:
        """Send an answer and release its memory, unless another thread is sending, which then does.

        So at most one thread of a stream waits for its client. A client that is gone gets no
        answer.
        """
        with self._lock:
            # First, as the client may reuse the number once it has the answer.
            if self._calls.get(number) is call:
                del self._calls[number]
                self._shared.calls.leave(call)
            if self._is_sending:
                # The thread that is sending sends it.
                self._backlog.append((response, reservation))
                self._backlog_bytes += len(response)
                if self._is_backed_up():
                    self._has_capacity.clear()
                return
            self._is_sending = True
        outgoing: _Outgoing | None = (response, reservation)
        while outgoing is not None:
            response, reservation = outgoing
            with contextlib.suppress(XlaError):
                self._stream.send(response)
            if reservation is not None:
                reservation.release()
            with self._lock:
                self._unanswered -= 1
                is_over = self._is_half_closed and not self._unanswered
                is_drained = self._is_draining and not self._unanswered
                outgoing = self._next_of_backlog()
        if is_over:
            self._over.set()
        elif is_drained:
            self._cancellation.cancel(shutting_down(NotBegunError))

    def drain(self) -> None:
        """Begin no more calls, and end with UNAVAILABLE once the calls in progress are answered.

        The client then makes ordinary calls, of which some are served.
        """
        with self._lock:
            self._is_draining = True
            is_drained = not self._unanswered
        if is_drained:
            self._cancellation.cancel(shutting_down(NotBegunError))

    def _next_of_backlog(self) -> "_Outgoing | None":
        """The next response to send; without one the thread stops sending. Under the lock."""
        if not self._backlog:
            self._is_sending = False
            return None
        outgoing = self._backlog.popleft()
        self._backlog_bytes -= len(outgoing[0])
        if not self._has_capacity.is_set() and not self._is_backed_up():
            self._has_capacity.set()
        return outgoing

    def _is_backed_up(self) -> bool:
        return self._backlog_bytes > MAX_BACKLOG_BYTES or len(self._backlog) > MAX_CALLS

    def _read(self) -> None:
        """Read and answer until the stream ends or another thread has taken over."""
        watch, lock = self._shared.watch, self._lock
        try:
            while (data := self._receive()) is not None:
                number = self._request_count = self._request_count + 1
                self.answering = number
                if watch.is_asleep:
                    watch.wake()
                self._begin_call(self._stream.parse(data))
                with lock:
                    if self.answering != number:
                        return
                    self.answering = 0
        except BaseException as error:
            with lock:
                if not self._over.is_set():  # After the end the error is not read.
                    self._error = error
            self._over.set()
            return
        with lock:
            self._is_half_closed = True
            is_over = not self._unanswered
        if is_over:
            self._over.set()

    def _receive(self) -> bytes | None:
        """The client's next message, read once the backlog is below its limit."""
        if not self._has_capacity.is_set():
            self._has_capacity.wait()
        return self._stream.receive_bytes()

    def _begin_call(self, request: extension_pb2.ConverseRequest) -> None:
        number = request.id
        if request.cancel:
            stopped = self._calls.get(number)
            if stopped is not None:
                stopped.cancellation.cancel(CancelledError("the client gave the call up"))
            return
        rpc, begin = self._shared.methods.get(request.method, (_CONVERSE, _refuse))
        started, timeout = time.monotonic(), request.timeout_milliseconds
        deadline = started + timeout / 1000 if timeout else None
        call = _Call(self, number, rpc, started, deadline)
        refusal = None
        try:
            self._admit(request, call, rpc)
        except XlaError as error:
            refusal = error
        with self._lock:
            self._unanswered += 1
            if refusal is None:
                self._calls[number] = call
        if refusal is not None:
            call.finish(raising(refusal))
            return
        if self._cancellation.is_cancelled:
            self._cancel_all()
        answer = Responder(call.finish, self._shared.threads, threading.get_ident())
        has_session = request.method not in self._shared.without_session
        subject = self._session.service if has_session else self._stream.caller
        begin(subject, request.request, call.cancellation, answer)

    def _admit(self, request: extension_pb2.ConverseRequest, call: _Call, rpc: Rpc) -> None:
        """Take a slot of the session's calls; raises the error of a call that is refused."""
        if self._is_draining:
            raise shutting_down()
        if request.id in self._calls:
            raise InvalidArgumentError(
                f"the id of a call must not be in use on its stream, got {request.id}, which is"
            )
        if len(self._calls) >= MAX_CALLS:
            raise ResourceExhaustedError(
                f"a stream may have {MAX_CALLS} calls in progress, got one more with "
                f"{len(self._calls)} there",
                hint="Wait for one to end.",
            )
        if request.method not in self._shared.methods:
            raise UnimplementedError(
                "method must be the path of a unary rpc such as xla.XlaService/Execute, got "
                f"{request.method!r:.200}"
            )
        authorise(self._stream.lease.identity, rpc.path)
        self._shared.calls.enter(call, self._owner, self._session.service.caller)

    def _cancel_all(self) -> None:
        error = self._cancellation.error or CancelledError("the stream of the call ended")
        for call in list(self._calls.values()):
            call.cancellation.cancel(error)
        self._has_capacity.set()
        self._over.set()


def _refuse(_: Any, __: bytes, ___: Cancellation, ____: Responder) -> None:
    raise AssertionError("a refused call is not begun")
