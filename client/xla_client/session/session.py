"""State that a client's objects share: the transport and the handles on the server."""

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from google.protobuf.message import Message

from xla_client.session.handle_reclaimer import Reclaimer
from xla_client.transfers.chunked import ChunkedTransfers
from xla_client.transfers.pipelined_copy import RingCalls
from xla_client.transfers.progress import Progress
from xla_client.transfers.shared_memory import SharedMemory, is_enabled
from xla_client.transfers.tuple_elements import (
    download_elements,
    is_assembled,
    is_split,
    upload_elements,
)
from xla_client.transport.errors import CutOffError
from xla_client.transport.transport import Pending, Transport
from xla_contract.errors import (
    InvalidArgumentError,
    LostError,
    NotFoundError,
    SessionEndedError,
    UnavailableError,
    XlaError,
)
from xla_contract.stubs import xla_data_pb2, xla_extension_pb2, xla_pb2
from xla_contract.stubs.xla_extension_pb2 import (
    CAPABILITY_CHUNKED_TRANSFERS,
    CAPABILITY_SHARED_PIECES,
    CloseSessionRequest,
    OpenSessionResponse,
)
from xla_contract.types.literal import Literal, with_aligned_elements
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.encoding import encode_literal_message
from xla_contract.wire.shape_proto import shape_to_proto
from xla_host import allocator

_PROBE_SECONDS = 1.0
"""Seconds that a call spends on finding out about the server after its connection ended."""

CLOSE_TIMEOUT = 5.0
"""Seconds that closing may spend on freeing handles on the server."""


_LOG = logging.getLogger("xla_client")

Generation: TypeAlias = OpenSessionResponse | None
"""Identity of a session on the server; None if it is the connection's default session."""

_OPEN: "weakref.WeakSet[Session]" = weakref.WeakSet()


@atexit.register
def _close_open_sessions() -> None:
    """End on the servers the sessions of a program that never closed its clients."""
    for session in list(_OPEN):
        session.close()


def _leave_to_parent() -> None:
    """Leave the sessions to the process that opened them, in a forked child."""
    for session in list(_OPEN):
        session.leave_to_parent()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class Heir(Protocol):
    """An object with resources of a parent process, which a forked child must not use."""

    def leave_to_parent(self) -> None:
        """Give the resources up in the child, without waiting for a lock."""


class Session:
    """Calls to one server, with the handles they gave out."""

    def __init__(self, transport: Transport, shared_memory: bool | None = None) -> None:
        self.transport = transport
        self.is_shared = transport.is_resumed
        """True if others may know the token, and so have ended the session."""
        self.feeds: weakref.WeakSet[Heir] = weakref.WeakSet()
        """Objects with threads of their own, for a forked child to leave."""
        self._wants_shared_memory = is_enabled(shared_memory)
        self._renewing = threading.Lock()
        self._loss = ""
        self._prepare(transport.session)
        _OPEN.add(self)

    @property
    def generation(self) -> Generation:
        """The session of the calls on the server; what is of another one is lost."""
        return self.transport.session

    def _prepare(self, opened: Generation) -> None:
        """Create the parts of the client that belong to a session on the server."""
        transport = self.transport
        capabilities = frozenset[int]() if opened is None else frozenset(opened.capabilities)
        self.reclaimer = Reclaimer(self._free)
        self.shared_memory: SharedMemory | None = None
        """Shared memory for large values, if the server is on this host."""
        if opened is not None and opened.shared_memory_socket and self._wants_shared_memory:
            in_pieces = None
            if CAPABILITY_SHARED_PIECES in capabilities:
                in_pieces = RingCalls(transport.call, self.reclaimer.due)
            self.shared_memory = SharedMemory(
                opened.shared_memory_socket, opened.token, self.call, in_pieces
            )
        self.chunks: ChunkedTransfers | None = None
        """The transfer of large values without shared memory, if the server supports it."""
        if opened is not None and CAPABILITY_CHUNKED_TRANSFERS in capabilities:
            self.chunks = ChunkedTransfers(transport, opened.max_message_bytes)

    def renew(self, generation: Generation, error: XlaError) -> None:
        """Continue in another session after `error` reported that the one of `generation` is gone.

        This does nothing if another thread has done it. A session whose token others know is
        replaced only after a restart of the server, because one of them may have ended it; a
        session that `connect` resumed by its token is never replaced. `error` is raised for these.
        """
        with self._renewing:
            if self.generation is not generation:
                return
            if isinstance(error, NotFoundError):
                raise error
            before, opened = self.transport.session, self.transport.open_another()
            assert before is not None
            was_restarted = before.server_instance != opened.server_instance
            happened = f"the server at {self.transport.target} "
            if was_restarted:
                happened += "was started again"
            else:
                happened += f"ended the session, which it keeps {before.grace_seconds:g} s for a "
                happened += "client that is away"
            if self.transport.is_resumed or (self.is_shared and not was_restarted):
                with contextlib.suppress(XlaError):
                    self.transport.end(opened)
                if not was_restarted:
                    raise error
                raise type(error)(
                    f"{error.message}: {happened}",
                    op=error.op,
                    hint="connect() without a session opens another one. What was in this one is "
                    "lost.",
                )
            last = self.shared_memory
            self._loss = happened
            self._prepare(opened)
            # Threads that see the new session must find all that belongs to it, so this comes last.
            self.transport.use(opened)
            if last is not None:
                last.close()
        _LOG.warning("%s: there is another session, and what was in the last one is lost", happened)

    def after_cut(self, generation: Generation, error: CutOffError) -> XlaError:
        """Return the error of a call whose connection ended, with what has become of the server.

        If that was started again there is another session afterwards, as by `renew`.
        """
        happened, hint = "the server is there", error.hint
        request = xla_extension_pb2.DescribeSessionRequest()
        try:
            self.transport.call("DescribeSession", request, _PROBE_SECONDS)
        except (SessionEndedError, NotFoundError) as ended:
            try:
                self.renew(generation, ended)
            except XlaError as refused:
                return refused
            happened, hint = self._loss, "The server may have made the call. Its values are lost."
        except UnavailableError:
            happened = f"no call is answered at {self.transport.target} now"
        except XlaError:
            return UnavailableError(error.message, op=error.op, hint=hint)
        return UnavailableError(f"{error.message}; {happened}", op=error.op, hint=hint)

    def require_present(self, generation: Generation, what: str) -> None:
        """Raise LostError for something of a session that is gone; `what` names it."""
        if generation is not self.generation:
            raise self.lost(what)

    def lost(self, what: str) -> LostError:
        """Return the error of something of a session that is gone; `what` names it."""
        return LostError(
            f"what a call uses must be of the client's present session, got {what}, which was lost "
            f"when {self._loss}",
            hint="Make it anew. Executables are compiled anew by themselves.",
        )

    def call(self, name: str, request: Message | bytes, timeout: float | None = None) -> Any:
        """Make a call, after freeing what has gathered; raises XlaError."""
        self.reclaimer.free_if_due()
        return self.transport.call(name, request, timeout)

    def start(
        self, name: str, request: Message | bytes, timeout: float | None = None
    ) -> Pending[Any]:
        """Make a call without waiting, after freeing what has gathered."""
        self.reclaimer.free_if_due()
        return self.transport.start(name, request, timeout)

    async def acall(self, name: str, request: Message | bytes, timeout: float | None = None) -> Any:
        """Coroutine of `call`; cancelling it cancels the call.

        Handles that wait to be freed are sent with a call that is not urgent.
        """
        pending = self.transport.start(name, request, timeout)
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def notify() -> None:
            # The loop of an abandoned coroutine may be closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        pending.add_done_callback(notify)
        try:
            await done.wait()
        except asyncio.CancelledError:
            pending.cancel()
            raise
        return pending.result()

    def upload(
        self,
        literal: Literal,
        device: int,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Keep a literal on a device; return its data handle."""
        shape, target = literal.shape, device_handle(device)
        if self.chunks is not None and is_assembled(shape):
            return upload_elements(self, literal, target, timeout, progress)
        handle = None
        if self.shared_memory is not None:
            handle = self.shared_memory.upload(literal, target, timeout, progress)
        if handle is None and self.chunks is not None and self.chunks.can_upload(shape):
            self.reclaimer.free_if_due()
            handle = self.chunks.upload(literal, target, self._limit(timeout), progress)
            allocator.transferred(shape.byte_size)
            return handle
        if handle is None:
            request = xla_pb2.TransferToServerRequest(device_handle=target)
            handle = int(self.send("TransferToServer", request, literal, timeout).data.handle)
        if progress is not None:
            progress(shape.byte_size, shape.byte_size)
        return handle

    def download(
        self,
        handle: int,
        shape: Shape,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Literal:
        """The value of a data handle in the layouts of `shape`, which has one for each array."""
        if self.chunks is not None and is_split(shape):
            return download_elements(self, handle, shape, timeout, progress)
        wanted, literal = shape_to_proto(shape), None
        if self.shared_memory is not None:
            literal = self.shared_memory.download(handle, shape, timeout, progress)
        if literal is None and self.chunks is not None and self.chunks.can_download(shape):
            self.reclaimer.free_if_due()
            literal = self.chunks.download(handle, shape, self._limit(timeout), progress)
            allocator.transferred(shape.byte_size)
            return literal
        if literal is None:
            request = xla_pb2.TransferToClientRequest(
                data=xla_data_pb2.GlobalDataHandle(handle=handle), shape_with_layout=wanted
            )
            literal = self.receive("TransferToClient", request, timeout)
        if progress is not None:
            progress(shape.byte_size, shape.byte_size)
        return literal

    async def adownload(self, handle: int, shape: Shape, timeout: float | None = None) -> Literal:
        """Fetch a value in one message as `download` does, without blocking the event loop."""
        request = xla_pb2.TransferToClientRequest(
            data=xla_data_pb2.GlobalDataHandle(handle=handle),
            shape_with_layout=shape_to_proto(shape),
        )
        response = await self.acall("TransferToClient", request, timeout)
        return _literal_of("TransferToClient", response)

    async def aupload(self, literal: Literal, device: int, timeout: float | None = None) -> int:
        """Upload a value in one message as `upload` does, without blocking the event loop."""
        request = xla_pb2.TransferToServerRequest(device_handle=device_handle(device))
        message = encode_literal_message(request, literal)
        return int((await self.acall("TransferToServer", message, timeout)).data.handle)

    def _limit(self, timeout: float | None) -> float | None:
        return self.transport.timeout if timeout is None else timeout

    def send(
        self, name: str, request: Message, literal: Literal, timeout: float | None = None
    ) -> Any:
        """Make a call whose request carries a literal; raises XlaError."""
        response = self.call(name, encode_literal_message(request, literal), timeout)
        allocator.transferred(literal.shape.byte_size)
        return response

    def receive(self, name: str, request: Message, timeout: float | None = None) -> Literal:
        """Make a call whose response carries a literal, and give that; raises XlaError."""
        literal = _literal_of(name, self.call(name, request, timeout))
        allocator.transferred(literal.shape.byte_size)
        return literal

    def hold(self, owner: object, handle: int, byte_size: int) -> "weakref.finalize[..., Any]":
        """Free `handle` after `owner` is collected."""
        return self.reclaimer.hold(owner, handle, byte_size)

    def delete(self, handle: int, timeout: float | None = None) -> None:
        """Free a held handle now; raises XlaError."""
        self.reclaimer.forget(handle)
        self.call("Unregister", _unregister([handle]), timeout)

    def close(self) -> None:
        """End the session with all its objects, and close the transport; no effect when closed.

        A session without a token cannot be closed: all its handles are freed instead.
        """
        if self.transport.closed:
            return
        try:
            if self.transport.session is None:
                self.reclaimer.free_everything()
            else:
                # The session may have ended by itself, and a dead server cannot be told.
                with contextlib.suppress(XlaError):
                    self.transport.call("CloseSession", CloseSessionRequest(), CLOSE_TIMEOUT)
        finally:
            self._disconnect()

    def detach(self) -> None:
        """Close the transport and leave the session as it is; no effect when closed."""
        if self.transport.closed:
            return
        try:
            self.reclaimer.free()
        finally:
            self._disconnect()

    def leave_to_parent(self) -> None:
        """Leave the session to the parent, in a forked child.

        It takes no lock: a thread of the parent may hold it.
        """
        self.transport.leave_to_parent()
        if self.shared_memory is not None:
            self.shared_memory.leave_to_parent()
        for feed in list(self.feeds):
            feed.leave_to_parent()

    def _disconnect(self) -> None:
        if self.shared_memory is not None:
            self.shared_memory.close()
        self.transport.close()
        _OPEN.discard(self)

    def _free(self, handles: Sequence[int]) -> None:
        # A restarted server does not know the handles; one that is gone cannot be told.
        with contextlib.suppress(XlaError):
            self.transport.call("Unregister", _unregister(handles), CLOSE_TIMEOUT)


def device_handle(ordinal: int) -> xla_data_pb2.DeviceHandle:
    """The handle of the device with this ordinal: the last of a set that ends with it."""
    return xla_data_pb2.DeviceHandle(handle=ordinal, device_count=ordinal + 1)


def _literal_of(name: str, response: Any) -> Literal:
    """The literal that a response carries; InvalidArgumentError if there is none."""
    if response.literal is None:
        raise InvalidArgumentError(f"{name}: the response must hold a literal, got none")
    return with_aligned_elements(response.literal.read())


def _unregister(handles: Sequence[int]) -> xla_pb2.UnregisterRequest:
    return xla_pb2.UnregisterRequest(
        data=[xla_data_pb2.GlobalDataHandle(handle=handle) for handle in handles]
    )
