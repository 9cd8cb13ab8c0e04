"""The client's end of an infeed queue: numbered items on streams that may be cut and resumed.

Progress belongs to the session, so that a client that lost its stream continues after the last
received item. Credit belongs to a stream. It is granted for free capacity of the queue, a quarter
of it at a time, or at once if the queue lacks items. So a stream's items always fit, and the thread
that reads them never waits.
"""

import dataclasses
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from xla_contract.errors import AbortedError, InvalidArgumentError, ResourceExhaustedError, XlaError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.feeds.feed_queue import FeedQueue
from xla_server.sessions.feeds.feed_side import FeedSide, FeedStream
from xla_server.sessions.feeds.item_conversion import fit, infeed_arrays, items_of_literal
from xla_server.sessions.feeds.queue_entries import FeedClient, Item, WaitState, joined

STREAM = FeedClient("Infeed")
MAX_REFUSALS = 64
"""Refusals that are repeated after a stream was cut."""


@dataclasses.dataclass(frozen=True, slots=True)
class Credit:
    """Additional credit of the client: arrays, and bytes of their data."""

    items: int
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class ReceivedItem:
    """A received item: its number, its value or the error in it, and its size in bytes."""

    sequence: int
    value: Literal | XlaError
    arrays: int
    byte_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of the last item received and the last one taken by programs; credit to add."""

    received: int
    consumed: int
    credit: Credit


@dataclasses.dataclass(frozen=True, slots=True)
class RejectedItem:
    """An item that was not queued, and why."""

    sequence: int
    error: XlaError


Report: TypeAlias = Progress | RejectedItem


class InfeedSide(FeedSide["InfeedStream"]):
    """State of an infeed queue that outlives its streams. Thread-safe."""

    def __init__(self, queue: FeedQueue) -> None:
        super().__init__(queue)
        queue.observer = self._on_change
        self.refused: deque[RejectedItem] = deque(maxlen=MAX_REFUSALS)

    def attach(self, declared: Shape | None, cancellation: Cancellation) -> "InfeedStream":
        """Begin a stream; the previous one ends with AbortedError, through its cancellation.

        Raises as `infeed_arrays` for a shape that infeed does not take.
        """
        arrays = None if declared is None else infeed_arrays(declared)
        return self._connect("Infeed", lambda: InfeedStream(self, arrays, cancellation))

    def close(self, *, discard: bool) -> int:
        """Refuse further items in the queue; return the number of arrays that were dropped."""
        dropped = self.queue.close(discard=discard)
        stream = self.stream
        if stream is not None:
            stream.abort(AbortedError("the infeed queue of the stream was closed"))
        return dropped

    def waiting(self) -> list[WaitState]:
        """The waiting clients, among them the stream if it has used its credit.

        The entries of programs name the last refused item, which they may be waiting for.
        """
        with self.changed:
            stream = self.stream
            waiting = self.queue.waiting() + ([] if stream is None else stream.waiting())
            if not self.refused:
                return waiting
            last = self.refused[-1]
        refusal = f"item {last.sequence} of the stream was refused: {last.error.message}"
        return [
            dataclasses.replace(each, reason=f"{each.reason}; {refusal}")
            if each.user.instruction
            else each
            for each in waiting
        ]

    def _on_change(self) -> None:
        """Wake the stream's reporting thread if a change of the queue makes a report due."""
        stream = self.stream
        if stream is not None:
            stream.wake_if_due()


class InfeedStream(FeedStream):
    """One stream of `InfeedSide.attach`: one thread accepts items, another reports progress."""

    def __init__(
        self, side: InfeedSide, arrays: Sequence[Shape] | None, cancellation: Cancellation
    ) -> None:
        super().__init__(cancellation, *(max(0, free) for free in side.queue.free_capacity()))
        self._side = side
        self._arrays = arrays
        self._refusals = list(side.refused)
        self._out_of_credit_at = time.monotonic()
        self._reported = side.sequence
        self._unreported_bytes = 0
        self._is_flush_requested = False
        self._fitting: Shape | None = None
        self.next_sequence = side.sequence + 1
        self.credit = Credit(self._credit_items, self._credit_bytes)
        """Initial credit of the client."""

    def accept(self, arrivals: Sequence[ReceivedItem]) -> None:
        """Queue items of one message, without those that were received before.

        Items that do not fit are refused in a report. Raises InvalidArgumentError for a gap in the
        numbers, ResourceExhaustedError for an item without credit, AbortedError if the queue is
        closed or another stream has replaced this one. Items before the fault count as received.
        """
        side = self._side
        with side.changed:
            if self._is_ended:
                raise AbortedError("the Infeed stream must go on to be used, got its end")
            fresh: list[ReceivedItem] = []
            fault: XlaError | None = None
            for arrival in arrivals:
                expected = side.sequence + len(fresh) + 1
                fault = self._fault(arrival, expected)
                if fault is not None:
                    break
                self._spend(arrival)
                if arrival.sequence == expected:
                    fresh.append(arrival)
            self._queue(fresh)
            if fault is not None:
                raise fault
            self.wake_if_due()

    def flush(self) -> None:
        """Make a report of progress due at once."""
        with self._side.changed:
            self._is_flush_requested = True
            self._side.changed.notify_all()

    def reports(self) -> Iterator[Report]:
        """Yield reports for the client as they come, until `end`. Blocks."""
        changed = self._side.changed
        while True:
            with changed:
                changed.wait_for(lambda: self._is_ended or self._is_due())
                if self._is_ended:
                    return
                reports = self._take_reports()
            yield from reports

    def end(self) -> list[Report]:
        """End the stream; return the remaining reports."""
        side = self._side
        with side.changed:
            if side.stream is self:
                side.stream = None
            reports = [] if self._is_ended else self._take_reports()
            self._is_ended = True
            side.changed.notify_all()
        return reports

    def wake_if_due(self) -> None:
        """Wake the reporting thread if a report is due."""
        with self._side.changed:
            if self._is_due():
                self._side.changed.notify_all()

    def waiting(self) -> list[WaitState]:
        """The stream as a waiting client, if it has no credit; else nothing."""
        if self._has_credit:
            return []
        queue = self._side.queue
        items, byte_size = queue.size
        reason = (
            f"the Infeed stream has used its credit; the queue holds {items} of {queue.max_items} "
            f"items and {byte_size} of {queue.max_bytes} bytes"
        )
        shape = None if self._arrays is None else joined(self._arrays)
        return [WaitState(STREAM, shape, time.monotonic() - self._out_of_credit_at, reason)]

    # Under the lock of the side -------------------------------------------------------------

    def _fault(self, arrival: ReceivedItem, expected: int) -> XlaError | None:
        if arrival.sequence < 1 or arrival.sequence > expected:
            return InvalidArgumentError(
                "items must be numbered from 1 without gaps, got "
                f"{arrival.sequence} where {expected} comes next"
            )
        if not self._has_credit:
            return ResourceExhaustedError(
                "an item may be sent while there is credit for items and bytes, got item "
                f"{arrival.sequence} with {self._credit_items} items and {self._credit_bytes} "
                "bytes left",
                hint="Wait for an InfeedProgress that adds credit.",
            )
        return None

    def _spend(self, arrival: ReceivedItem) -> None:
        self._credit_items -= arrival.arrays
        self._credit_bytes -= arrival.byte_size
        self._unreported_bytes += arrival.byte_size
        if not self._has_credit:
            self._out_of_credit_at = time.monotonic()

    def _queue(self, arrivals: Sequence[ReceivedItem]) -> None:
        values: list[tuple[Item, ...]] = []
        numbers: list[int] = []
        for arrival in arrivals:
            try:
                values.append(self._items(arrival))
                numbers.append(arrival.sequence)
            except XlaError as error:
                self._refuse(arrival.sequence, error)
        for number, refusal in zip(numbers, self._side.queue.offer(values), strict=True):
            if refusal is not None:
                self._refuse(number, refusal)
        if arrivals:
            self._side.sequence = arrivals[-1].sequence

    def _items(self, arrival: ReceivedItem) -> tuple[Item, ...]:
        """The items of an arrival; raises the error in it."""
        if isinstance(arrival.value, XlaError):
            raise arrival.value
        shape = arrival.value.shape
        if self._arrays is None:
            return items_of_literal(arrival.value, infeed_arrays(shape), arrival.sequence)
        parts = shape.tuple_shapes if shape.is_tuple else (shape,)
        # Usually all items have the same shape object.
        if shape is not self._fitting and not fit(parts, self._arrays):
            raise InvalidArgumentError(
                "an item must have the shape that the stream declares, got "
                f"{shape.without_layout()} for {joined(self._arrays)}"
            )
        self._fitting = shape
        return items_of_literal(arrival.value, self._arrays, arrival.sequence)

    def _refuse(self, sequence: int, error: XlaError) -> None:
        refused = RejectedItem(sequence, error)
        self._refusals.append(refused)
        self._side.refused.append(refused)

    def _is_due(self) -> bool:
        if self._refusals or self._is_flush_requested:
            return True
        queue = self._side.queue
        items, byte_size = self._grantable()
        if 4 * max(items, self._side.sequence - self._reported) >= queue.max_items:
            return True
        if 4 * max(byte_size, self._unreported_bytes) >= queue.max_bytes:
            return True
        return not self._has_credit and queue.lacking() > 0

    def _grantable(self) -> tuple[int, int]:
        items, byte_size = self._side.queue.free_capacity()
        return items - self._credit_items, byte_size - self._credit_bytes

    def _take_reports(self) -> list[Report]:
        """Return the due reports with all available credit; refusals before the progress."""
        side = self._side
        items, byte_size = (max(0, more) for more in self._grantable())
        self._credit_items += items
        self._credit_bytes += byte_size
        self._reported = side.sequence
        self._unreported_bytes = 0
        self._is_flush_requested = False
        refusals, self._refusals = self._refusals, []
        progress = Progress(side.sequence, side.queue.consumed, Credit(items, byte_size))
        return [*refusals, progress]
