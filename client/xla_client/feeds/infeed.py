"""The client's end of a device's infeed, or of a channel from the host."""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterable, Iterable
from typing import NamedTuple, Protocol

from xla_client.coercion.parameters import brief
from xla_client.feeds.resumable_stream import FeedBlock, ResumableStream
from xla_client.feeds.state import FeedAddress, close_request, drain_request
from xla_client.runs.arguments import Argument, as_literal
from xla_client.session.session import Session, device_handle
from xla_client.transport.errors import error_of_status
from xla_contract.errors import AbortedError, DataLossError, ResourceExhaustedError, XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.feed_items import FeedItemEncoder, items_part
from xla_contract.wire.shape_proto import shape_to_proto

_DIRECTION = extension_pb2.FEED_DIRECTION_INFEED

WAITING_ITEMS = 256
WAITING_BYTES = 8 << 20
"""Numbers of values, and of their bytes, that wait in the client from which `put` blocks; a single
larger value may wait, too."""
MESSAGE_BYTES = 1 << 20
"""Size in bytes from which no more items are added to a message."""
MAX_VALUE_BYTES = 2**31 - 4096
"""Largest value, in bytes: one that fits into a protobuf message."""


class Infeed(FeedBlock):
    """Values on their way into a device's infeed, in order: `with device.infeed() as feed`.

    `shape` of the feed gives types to Python numbers and lists, and is what the server checks
    every value against. Values go out while the program runs; a value that does not fit what the
    program waits for raises at a later call. If the connection is lost, the feed reconnects and
    continues, and every value arrives once. Leaving the block waits until the server has received
    all; leaving it by an error drops what was not sent. A feed that is garbage collected sends what
    it has and ends. Any thread may call any method; those that begin with an a are for coroutines,
    as `async with` is.
    """

    def __init__(
        self,
        session: Session,
        address: FeedAddress,
        shape: Shape | None,
        timeout: float | None,
    ) -> None:
        address.require(session)
        self._session = session
        self._address = address
        self._shape = None if shape is None else shape.with_default_layout()
        self._timeout = session.transport.timeout if timeout is None else timeout
        has_streams = extension_pb2.CAPABILITY_FEED_STREAMS in session.transport.capabilities
        make = _StreamedInfeed if has_streams else _CalledInfeed
        self._sender: _Sender = make(session, address, self._shape)
        self._is_closed = False
        finalizer = weakref.finalize(self, self._sender.let_go)
        # The session ends with the process, so the finalizer has nothing to send at exit.
        finalizer.atexit = False

    @brief
    def put(self, value: Argument, *, timeout: float | None = None) -> None:
        """Send a value, an array or a flat tuple of arrays, waiting while the queue is full.

        Raises DeadlineExceededError after `timeout` seconds, when the value is not sent; by
        default the feed's own.
        """
        self._sender.put(as_literal(value, self._shape), self._or_own(timeout))

    def send(self, values: Iterable[Argument], *, timeout: float | None = None) -> int:
        """Send every value of an iterable as it comes.

        Args:
            values: The values.
            timeout: Seconds for each value; None for the feed's own.

        Returns:
            The number of the values.
        """
        count = 0
        for value in values:
            self.put(value, timeout=timeout)
            count += 1
        return count

    @brief
    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until the server has received all values, and raise what was wrong with them."""
        self._sender.flush(self._or_own(timeout))

    @brief
    def drain(self, *, timeout: float | None = None) -> None:
        """Wait until programs have taken all values."""
        timeout = self._or_own(timeout)
        self._sender.flush(timeout)
        if self._sender.has_streams:
            self._call("DrainFeed", drain_request(self._address, _DIRECTION), timeout)

    @brief
    def close_queue(self, *, discard: bool = False, timeout: float | None = None) -> int:
        """Refuse further values in the device's infeed; programs that wait for more fail.

        Another feed opens the queue again. This one is closed.

        Args:
            discard: Whether to drop the arrays that programs have not taken.
            timeout: Seconds until DeadlineExceededError.

        Returns:
            The number of the arrays that were dropped.
        """
        self._is_closed = True
        self._sender.flush(self._or_own(timeout))
        self._sender.close()
        request = close_request(self._address, _DIRECTION, discard=discard)
        discarded: int = self._call("CloseFeed", request, timeout).discarded
        return discarded

    @brief
    def close(self) -> None:
        """Wait until the server has received all values, and leave; no effect when done before."""
        if not self._is_closed:
            self._is_closed = True
            try:
                self._sender.flush(self._timeout)
            finally:
                self._sender.close()

    async def aput(self, value: Argument, *, timeout: float | None = None) -> None:
        """Coroutine of `put`."""
        await self._sender.aput(as_literal(value, self._shape), self._or_own(timeout))

    async def asend(
        self,
        values: Iterable[Argument] | AsyncIterable[Argument],
        *,
        timeout: float | None = None,
    ) -> int:
        """Coroutine of `send`, for iterables of both kinds."""
        count = 0
        if isinstance(values, AsyncIterable):
            async for value in values:
                await self.aput(value, timeout=timeout)
                count += 1
        else:
            for value in values:
                await self.aput(value, timeout=timeout)
                count += 1
        return count

    async def aflush(self, *, timeout: float | None = None) -> None:
        """Coroutine of `flush`."""
        await self._sender.aflush(self._or_own(timeout))

    async def adrain(self, *, timeout: float | None = None) -> None:
        """Coroutine of `drain`."""
        timeout = self._or_own(timeout)
        await self._sender.aflush(timeout)
        if self._sender.has_streams:
            request = drain_request(self._address, _DIRECTION)
            await self._acall("DrainFeed", request, timeout)

    async def aclose_queue(self, *, discard: bool = False, timeout: float | None = None) -> int:
        """Coroutine of `close_queue`."""
        self._is_closed = True
        await self._sender.aflush(self._or_own(timeout))
        await asyncio.to_thread(self._sender.close)
        request = close_request(self._address, _DIRECTION, discard=discard)
        discarded: int = (await self._acall("CloseFeed", request, timeout)).discarded
        return discarded

    async def aclose(self) -> None:
        """Coroutine of `close`."""
        if not self._is_closed:
            self._is_closed = True
            try:
                await self._sender.aflush(self._timeout)
            finally:
                await asyncio.to_thread(self._sender.close)

    def _leave(self, *, has_failed: bool) -> None:
        if has_failed:
            self._sender.abandon()
        else:
            self.close()

    async def _aleave(self, *, has_failed: bool) -> None:
        if has_failed:
            self._sender.abandon()
        else:
            await self.aclose()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else self._sender.state
        shape = "any shape" if self._shape is None else self._shape
        return f"Infeed({self._address}, {shape}, {state})"

    def _or_own(self, timeout: float | None) -> float | None:
        return self._timeout if timeout is None else timeout


class _Sender(Protocol):
    """Interface for sending values: over a stream, or by one call for each value."""

    has_streams: bool

    @property
    def state(self) -> str: ...

    def put(self, literal: Literal, timeout: float | None) -> None: ...

    async def aput(self, literal: Literal, timeout: float | None) -> None: ...

    def flush(self, timeout: float | None) -> None: ...

    async def aflush(self, timeout: float | None) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...

    def let_go(self) -> None: ...


class _Value(NamedTuple):
    """A value to be sent, and its use of credit."""

    data: bytes
    arrays: int
    byte_size: int


class _StreamedInfeed(ResumableStream):
    """Values over an Infeed stream."""

    has_streams = True

    def __init__(self, session: Session, address: FeedAddress, declared: Shape | None) -> None:
        super().__init__(session, "Infeed")
        self._start = extension_pb2.InfeedStart(**address.fields)
        if declared is not None:
            self._start.shape.CopyFrom(shape_to_proto(declared))
        self._encoder = FeedItemEncoder(declared)
        self._waiting: deque[_Value] = deque()
        self._waiting_bytes = 0
        self._sent: deque[tuple[int, _Value]] = deque()
        self._next = 0
        self._credit_items = self._credit_bytes = 0
        self._wants_flush = self._has_asked = self._is_let_go = False
        self._last_refused = 0
        self._refusals: deque[XlaError] = deque()
        self.begin()

    def put(self, literal: Literal, timeout: float | None) -> None:
        value = self._value(literal)
        with self.changes:
            if not self.changes.wait_for(self._fits_more, timeout):
                raise self.late("the value must fit the queue", timeout)
            self._add(value)

    async def aput(self, literal: Literal, timeout: float | None) -> None:
        value = self._value(literal)
        while await self.changes.until(self._fits_more, timeout):
            with self.changes:
                if self._fits_more():
                    self._add(value)
                    return
        raise self.late("the value must fit the queue", timeout)

    def flush(self, timeout: float | None) -> None:
        with self.changes:
            self._ask()
            is_done = self.changes.wait_for(self._is_flushed, timeout)
            self._after_flush(is_done, timeout)

    async def aflush(self, timeout: float | None) -> None:
        with self.changes:
            self._ask()
        is_done = await self.changes.until(self._is_flushed, timeout)
        with self.changes:
            self._after_flush(is_done, timeout)

    def let_go(self) -> None:
        """Send the remaining items and end, without waiting.

        It is for an Infeed that was garbage collected.
        """
        with self.changes:
            self._is_let_go = self.is_closing = True
            self.changes.notify()

    def start_request(self) -> extension_pb2.InfeedRequest:
        self._credit_items = self._credit_bytes = 0
        return extension_pb2.InfeedRequest(start=self._start)

    def receive_response(self, response: extension_pb2.InfeedResponse) -> None:
        part = response.WhichOneof("part")
        if part == "started":
            self._resume_at(response.started.next_sequence)
            self._add_credit(response.started.credit)
        elif part == "refused":
            self._receive_refusal(response.refused)
        elif part == "progress":
            received = response.progress.received
            while self._sent and self._sent[0][0] <= received:
                self._sent.popleft()
            self._add_credit(response.progress.credit)

    def next_message(self) -> bytes | extension_pb2.InfeedRequest | None:
        batch: list[tuple[int, bytes]] = []
        size = 0
        while (
            self._waiting
            and self._credit_items > 0
            and self._credit_bytes > 0
            and size < MESSAGE_BYTES
        ):
            value = self._waiting[0]
            if batch and size + len(value.data) > MAX_VALUE_BYTES:
                break
            self._waiting.popleft()
            self._waiting_bytes -= value.byte_size
            self._credit_items -= value.arrays
            self._credit_bytes -= value.byte_size
            self._sent.append((self._next, value))
            batch.append((self._next, value.data))
            self._next += 1
            size += len(value.data)
        if batch:
            self.changes.notify()
            return items_part(batch)
        if self._wants_flush and not self._has_asked and not self._waiting:
            self._has_asked = True
            return extension_pb2.InfeedRequest(flush=extension_pb2.InfeedFlush())
        return None

    def _may_half_close(self) -> bool:
        return not (self._is_let_go and self._waiting) and super()._may_half_close()

    def _value(self, literal: Literal) -> _Value:
        byte_size = literal.shape.byte_size
        if byte_size > MAX_VALUE_BYTES:
            raise ResourceExhaustedError(
                f"a value of infeed must fit into a message of {MAX_VALUE_BYTES} bytes, got "
                f"{byte_size} for {literal.shape}",
                op="Infeed",
            )
        data = self._encoder.value(literal)
        return _Value(data, max(1, len(literal.elements)), byte_size)

    def _fits_more(self) -> bool:
        self._raise()
        return len(self._waiting) < WAITING_ITEMS and self._waiting_bytes < WAITING_BYTES

    def _add(self, value: _Value) -> None:
        self._waiting.append(value)
        self._waiting_bytes += value.byte_size
        if len(self._waiting) == 1:
            self.changes.notify()

    def _raise(self) -> None:
        if self._refusals:
            raise self._refusals.popleft()
        self.check()

    def _ask(self) -> None:
        # A refusal is raised only once the items after it have been received, too.
        if not self._refusals:
            self.check()
        self._wants_flush = True
        self._has_asked = False
        self.changes.notify()

    def _is_flushed(self) -> bool:
        return self.is_over or not (self._waiting or self._sent)

    def _after_flush(self, is_done: bool, timeout: float | None) -> None:
        self._wants_flush = False
        self._raise()
        if not is_done:
            raise self.late("the server must receive all values", timeout)

    def _add_credit(self, credit: extension_pb2.Credit) -> None:
        self._credit_items += credit.items
        self._credit_bytes += credit.bytes

    def _receive_refusal(self, refused: extension_pb2.ItemRefused) -> None:
        number = refused.sequence
        # The server repeats refusals on every new connection, also those of earlier feeds.
        is_ours = self._sent and self._sent[0][0] <= number <= self._sent[-1][0]
        if is_ours and number > self._last_refused:
            self._last_refused = number
            self._refusals.append(error_of_status("Infeed", refused.status))

    def _resume_at(self, number: int) -> None:
        """Continue after the last value that the server has received, and send later ones again."""
        expected = (self._sent[0][0] if self._sent else self._next), self._next
        if self._next and not expected[0] <= number <= expected[1]:
            kind = DataLossError if number < expected[0] else AbortedError
            raise kind(
                f"Infeed: the server must go on with a number between {expected[0]} and "
                f"{expected[1]}, got {number}",
                op="Infeed",
                hint="Another client feeds the device of this session, or the session was lost.",
            )
        while self._sent and self._sent[-1][0] >= number:
            value = self._sent.pop()[1]
            self._waiting.appendleft(value)
            self._waiting_bytes += value.byte_size
        self._next = number
        self._has_asked = False


class _CalledInfeed:
    """Values by a call of TransferToInfeed each, to servers that have no streams of feeds."""

    has_streams = False
    state = "by calls"

    def __init__(self, session: Session, address: FeedAddress, _: Shape | None) -> None:
        self._session = session
        self._device = address.device

    def put(self, literal: Literal, timeout: float | None) -> None:
        request = xla_pb2.TransferToInfeedRequest(device_handle=device_handle(self._device))
        self._session.send("TransferToInfeed", request, literal, timeout)

    async def aput(self, literal: Literal, timeout: float | None) -> None:
        await asyncio.to_thread(self.put, literal, timeout)

    def flush(self, timeout: float | None) -> None:
        """Return at once: a call has ended when its value was received."""

    async def aflush(self, timeout: float | None) -> None:
        """Return at once."""

    def close(self) -> None:
        """Do nothing: there is no stream."""

    def abandon(self) -> None:
        """Do nothing: there is no stream."""

    def let_go(self) -> None:
        """There is nothing to send."""
