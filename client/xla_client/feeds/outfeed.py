"""The client's end of a device's outfeed, or of a channel to the host."""

import asyncio
import contextlib
import threading
import time
import weakref
from collections import deque
from typing import Any, NamedTuple, Protocol, Self, cast

from xla_client.coercion.parameters import brief
from xla_client.feeds.resumable_stream import FIRST_PAUSE, FeedBlock, ResumableStream
from xla_client.feeds.state import FeedAddress, close_request, drain_request
from xla_client.runs.execution import Execution
from xla_client.session.session import Session, device_handle
from xla_contract.errors import InvalidArgumentError, UnimplementedError, XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Array, Nested
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.feed_items import FeedItemDecoder, array_count, data_byte_size
from xla_contract.wire.shape_proto import shape_to_proto

_DIRECTION = extension_pb2.FEED_DIRECTION_OUTFEED

DEFAULT_PREFETCH = 128
"""Number of arrays in transit or waiting for the consumer."""
PREFETCH_BYTES = 64 << 20
"""Bytes of arrays in transit or waiting for the consumer, except for a single larger array."""
ACKNOWLEDGE_SECONDS = 0.002
"""Seconds that a consumer must wait before its values are acknowledged in a separate message."""
_LOOK_SECONDS = 0.2
"""Longest pause, in seconds, between two polls for the last values of a run."""


class Outfeed(FeedBlock):
    """The values of a device's outfeed as they come, in order: `for value in device.outfeed()`.

    Without a shape, values come as the program puts them, tuples whole. The iteration ends after
    `count` values, when the queue is closed and empty, or with the loop that drives it. The feed
    fetches at most `prefetch` arrays ahead of the consumer. A value is acknowledged on the request
    for the next one, or at the end. A feed that is bound to a run ends when the run has ended and
    all values have arrived, with the error of the run if it failed. A feed that loses its
    connection reconnects and continues; every value arrives once. The object is an iterator and an
    asynchronous iterator, for one consumer. Coroutines have names with a leading a.
    """

    def __init__(
        self,
        session: Session,
        address: FeedAddress,
        shape: Shape | None,
        count: int | None,
        timeout: float | None,
        prefetch: int,
        run: Execution[Any] | None = None,
    ) -> None:
        if prefetch < 1:
            raise InvalidArgumentError(f"prefetch must be at least 1, got {prefetch}")
        address.require(session)
        self._session = session
        self._address = address
        self._left = count
        self._timeout = session.transport.timeout if timeout is None else timeout
        declared = None if shape is None else shape.with_default_layout()
        self._receiver: _Receiver
        if extension_pb2.CAPABILITY_FEED_STREAMS in session.transport.capabilities:
            streamed = _StreamedOutfeed(session, address, declared, count, prefetch)
            if run is not None:
                streamed.end_with(run)
            self._receiver = streamed
        elif run is not None:
            raise UnimplementedError(
                "outfeed: the server must have streams of feeds to end with a run, got one without"
            )
        elif declared is None:
            raise InvalidArgumentError(
                "outfeed must have the shape of its values if the server has no streams of "
                "feeds, got none"
            )
        else:
            self._receiver = _CalledOutfeed(session, address, declared)
        self._finalizer = weakref.finalize(self, self._receiver.close)
        # The session ends with the process, and drops the values that were not acknowledged.
        self._finalizer.atexit = False

    @brief
    def get(self, *, timeout: float | None = None) -> Array:
        """Wait for the next value.

        Args:
            timeout: Seconds until DeadlineExceededError; None for the feed's own.

        Returns:
            The value.

        Raises:
            StopIteration: There are no more values.
            DeadlineExceededError: There was no value in time.
        """
        if self._left == 0:
            self.close()
            raise StopIteration
        value = self._receiver.get(self._timeout if timeout is None else timeout)
        if isinstance(value, _End):
            raise StopIteration
        if self._left is not None:
            self._left -= 1
        return cast(Array, value)

    def drain(self, *, timeout: float | None = None) -> None:
        """Wait until the device's outfeed is empty, which needs a reader."""
        self._call("DrainFeed", drain_request(self._address, _DIRECTION), timeout)

    def close_queue(self, *, discard: bool = False, timeout: float | None = None) -> int:
        """Refuse further values in the device's outfeed; instructions that put one fail.

        The queued values are still delivered, then the end. Another feed opens the queue again.

        Args:
            discard: Whether to drop the arrays that were not acknowledged.
            timeout: Seconds until DeadlineExceededError.

        Returns:
            The number of the arrays that were dropped.
        """
        request = close_request(self._address, _DIRECTION, discard=discard)
        discarded: int = self._call("CloseFeed", request, timeout).discarded
        return discarded

    def close(self) -> None:
        """Acknowledge what the consumer has, leave the rest to the next feed, and end.

        Harmless when done before.
        """
        self._finalizer()

    async def aget(self, *, timeout: float | None = None) -> Array:
        """Coroutine of `get`; raises StopAsyncIteration at the end."""
        if self._left == 0:
            await self.aclose()
            raise StopAsyncIteration
        value = await self._receiver.aget(self._timeout if timeout is None else timeout)
        if isinstance(value, _End):
            raise StopAsyncIteration
        if self._left is not None:
            self._left -= 1
        return cast(Array, value)

    async def adrain(self, *, timeout: float | None = None) -> None:
        """Coroutine of `drain`."""
        await self._acall("DrainFeed", drain_request(self._address, _DIRECTION), timeout)

    async def aclose_queue(self, *, discard: bool = False, timeout: float | None = None) -> int:
        """Coroutine of `close_queue`."""
        request = close_request(self._address, _DIRECTION, discard=discard)
        discarded: int = (await self._acall("CloseFeed", request, timeout)).discarded
        return discarded

    async def aclose(self) -> None:
        """Coroutine of `close`."""
        await asyncio.to_thread(self._finalizer)

    def __repr__(self) -> str:
        left = "" if self._left is None else f", {self._left} to come"
        state = self._receiver.state if self._finalizer.alive else "closed"
        return f"Outfeed({self._address}{left}, {state})"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Array:
        return self.get()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Array:
        return await self.aget()

    def _leave(self, *, has_failed: bool) -> None:
        self.close()

    async def _aleave(self, *, has_failed: bool) -> None:
        await self.aclose()


class _End:
    """The end of the values."""


_END = _End()


class _Receiver(Protocol):
    """Interface for receiving values: over a stream, or by one call for each value."""

    @property
    def state(self) -> str: ...

    def get(self, timeout: float | None) -> "Nested | _End": ...

    async def aget(self, timeout: float | None) -> "Nested | _End": ...

    def close(self) -> None: ...


class _Value(NamedTuple):
    """A received value, with its number and the arrays and bytes of credit that it uses."""

    sequence: int
    value: Nested
    arrays: int
    byte_size: int


class _StreamedOutfeed(ResumableStream):
    """Values over an Outfeed stream."""

    def __init__(
        self,
        session: Session,
        address: FeedAddress,
        declared: Shape | None,
        count: int | None,
        prefetch: int,
    ) -> None:
        super().__init__(session, "Outfeed")
        self._address = address
        self._declared = None if declared is None else shape_to_proto(declared)
        self._decoder = FeedItemDecoder(declared)
        self._arrays = 1 if declared is None else max(1, len(tuple(declared.leaves())))
        self._to_come = count
        self._prefetch = prefetch
        self._ready: deque[_Value] = deque()
        self._here = self._here_bytes = 0
        self._credit_items = self._credit_bytes = 0
        self._given: _Value | None = None
        self._received = self._consumed = self._acknowledged = 0
        self._waiting_since: float | None = None
        self._unacknowledged: deque[tuple[int, int]] = deque()
        """Numbers of received and unacknowledged values, each with its number of arrays."""
        self._run: Execution[Any] | None = None
        self._has_all = False
        """True once the run has ended and all its values have arrived."""
        self.begin()

    def end_with(self, run: Execution[Any]) -> None:
        """End the values with the end of a run."""
        self._run = run

        def look() -> None:
            threading.Thread(target=self._look_for_end, name="xla-outfeed-end", daemon=True).start()

        run.future().add_done_callback(lambda _: look())

    def _look_for_end(self) -> None:
        """Poll, after the end of the run, until all values that it wrote have arrived."""
        pause = FIRST_PAUSE
        request = extension_pb2.DescribeFeedsRequest(**self._address.fields)
        while not self.is_over:
            with contextlib.suppress(XlaError):
                state = self.session.call("DescribeFeeds", request).outfeed
                with self.changes:
                    here = sum(n for number, n in self._unacknowledged if number > state.sequence)
                    # The last acknowledgement may still be on its way to the server.
                    knows = state.sequence >= self._acknowledged
                    if knows and here == state.items:
                        self._has_all = True
                        self.changes.notify()
                        return
            time.sleep(pause)
            pause = min(2 * pause, _LOOK_SECONDS)

    def get(self, timeout: float | None) -> "Nested | _End":
        with self.changes:
            self._finish_last()
            if not self.changes.wait_for(self._is_there, timeout):
                raise self.late("a value must come", timeout)
            return self._pop()

    async def aget(self, timeout: float | None) -> "Nested | _End":
        with self.changes:
            self._finish_last()
        if not await self.changes.until(self._is_there, timeout):
            raise self.late("a value must come", timeout)
        with self.changes:
            return self._pop()

    def close(self) -> None:
        with self.changes:
            self._finish_last()
        super().close()

    def start_request(self) -> extension_pb2.OutfeedRequest:
        self._credit_items = self._credit_bytes = 0
        self._acknowledged = 0
        self._credit_items, self._credit_bytes = self._grantable()
        return extension_pb2.OutfeedRequest(
            start=extension_pb2.OutfeedStart(
                **self._address.fields,
                shape_with_layout=self._declared,
                # Received values are not requested again; on the first stream the server decides
                # where to start.
                next_sequence=self._received + 1 if self._received else 0,
                credit=extension_pb2.Credit(items=self._credit_items, bytes=self._credit_bytes),
            )
        )

    def receive_response(self, response: extension_pb2.OutfeedResponse) -> None:
        for item in response.items.items:
            arrays, byte_size = array_count(item.value), data_byte_size(item.value)
            self._credit_items -= arrays
            self._credit_bytes -= byte_size
            if item.sequence <= self._received:
                continue
            value = self._decoder.literal(item.value).to_numpy()
            self._ready.append(_Value(item.sequence, value, arrays, byte_size))
            self._here += arrays
            self._here_bytes += byte_size
            self._received = item.sequence
            self._unacknowledged.append((item.sequence, arrays))
            if self._to_come is not None:
                self._to_come -= 1

    def next_message(self) -> extension_pb2.OutfeedRequest | None:
        is_due = self._is_due()
        if self._consumed > self._acknowledged and not is_due:
            is_due = self.is_closing or self._has_waited()
        if not is_due:
            return None
        items, byte_size = self._grantable()
        self._credit_items += items
        self._credit_bytes += byte_size
        self._acknowledged = self._consumed
        while self._unacknowledged and self._unacknowledged[0][0] <= self._acknowledged:
            self._unacknowledged.popleft()
        return extension_pb2.OutfeedRequest(
            progress=extension_pb2.OutfeedProgress(
                acknowledged=self._consumed,
                credit=extension_pb2.Credit(items=items, bytes=byte_size),
            )
        )

    def _has_waited(self) -> bool:
        """Return whether the consumer has waited ACKNOWLEDGE_SECONDS: an acknowledgement is due."""
        if self._waiting_since is None:
            return False
        due = self._waiting_since + ACKNOWLEDGE_SECONDS
        if time.monotonic() >= due:
            return True
        self.wake_at = due
        return False

    def _grantable(self) -> tuple[int, int]:
        """Return the credit that may be sent: for the consumer's values without credit yet."""
        items = self._prefetch - self._here
        if self._to_come is not None:
            items = min(items, self._to_come * self._arrays)
        items -= self._credit_items
        byte_size = max(PREFETCH_BYTES - self._here_bytes, 0 if self._here else 1)
        return max(0, items), max(0, byte_size - self._credit_bytes)

    def _finish_last(self) -> None:
        """Mark the value that the consumer was given last as consumed."""
        given, self._given = self._given, None
        if given is not None:
            self._here -= given.arrays
            self._here_bytes -= given.byte_size
            self._consumed = given.sequence
        is_waiting = not self._ready
        self._waiting_since = time.monotonic() if is_waiting else None
        # The sending thread is woken only if there is a message to send.
        if is_waiting or self._is_due():
            self.changes.notify()

    def _is_due(self) -> bool:
        """Return whether the credit is large enough to send it to the server."""
        items, byte_size = self._grantable()
        return 4 * items >= self._prefetch or 4 * byte_size >= PREFETCH_BYTES

    def _is_there(self) -> bool:
        return bool(self._ready) or self.is_over or self._has_all

    def _pop(self) -> "Nested | _End":
        self._waiting_since = None
        # Values that a closed feed has not returned are for the next feed.
        if self._ready and not self.is_closing:
            self._given = self._ready.popleft()
            return self._given.value
        if self.error is not None:
            raise self.error
        if self._has_all and not self.is_closing and self._run is not None:
            self._run.result(0)
        return _END


class _CalledOutfeed:
    """Values by a call of TransferFromOutfeed each, from servers without streams of feeds."""

    state = "by calls"

    def __init__(self, session: Session, address: FeedAddress, declared: Shape) -> None:
        self._session = session
        self._device = address.device
        self._declared = declared

    def get(self, timeout: float | None) -> "Nested | _End":
        request = xla_pb2.TransferFromOutfeedRequest(
            shape_with_layout=shape_to_proto(self._declared),
            device_handle=device_handle(self._device),
        )
        return self._session.receive("TransferFromOutfeed", request, timeout).to_numpy()

    async def aget(self, timeout: float | None) -> "Nested | _End":
        return await asyncio.to_thread(self.get, timeout)

    def close(self) -> None:
        """Do nothing: there is no stream."""
