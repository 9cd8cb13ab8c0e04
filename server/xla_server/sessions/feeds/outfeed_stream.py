"""The client's end of an outfeed queue: numbered items on streams that may be cut and resumed.

An item gets its number when a stream pops it from the queue, and is held, counted there, until
the client acknowledges it; a later stream sends held items again. A stream takes no more items and
bytes than its client has granted credit for.
"""

import dataclasses
import itertools
from collections import deque
from collections.abc import Sequence

from xla_contract.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    XlaError,
)
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.feeds.feed_queue import MAX_FRONT, FeedQueue
from xla_server.sessions.feeds.feed_side import FeedSide, FeedStream
from xla_server.sessions.feeds.infeed_stream import Credit
from xla_server.sessions.feeds.item_conversion import fit, literal_of, outfeed_arrays
from xla_server.sessions.feeds.queue_entries import FeedClient, Item

STREAM = FeedClient("Outfeed")
BATCH_ITEMS = 256
BATCH_BYTES = 1 << 20
"""Largest size of one message's items, in bytes; a larger item has a message of its own."""

_MAX_CREDIT = 2**62
"""Bound of credit, in items and in bytes: more than any stream uses, and within 64 bits."""


@dataclasses.dataclass(frozen=True, slots=True)
class UnacknowledgedItem:
    """A value with its number, held until it is acknowledged."""

    sequence: int
    items: tuple[Item, ...]
    byte_size: int


class OutfeedSide(FeedSide["OutfeedStream"]):
    """State of an outfeed queue that outlives its streams. Thread-safe."""

    def __init__(self, queue: FeedQueue) -> None:
        super().__init__(queue)
        self.held: deque[UnacknowledgedItem] = deque()

    @property
    def next_sequence(self) -> int:
        """The number that the next item taken from the queue will get."""
        return self.sequence + len(self.held) + 1

    def front(self) -> list[Shape]:
        """The shapes of the first arrays to send; without a stream, unacknowledged ones too.

        There are at most MAX_FRONT of them.
        """
        with self.changed:
            coming = self.held if self.stream is None else self.stream.unsent()
            shapes = (item.shape for held in coming for item in held.items)
            sent = list(itertools.islice(shapes, MAX_FRONT))
        return [*sent, *self.queue.front()][:MAX_FRONT]

    def attach(
        self,
        declared: Shape | None,
        next_sequence: int,
        credit: Credit,
        cancellation: Cancellation,
    ) -> "OutfeedStream":
        """Begin a stream at a number, or with 0 at the first that was not acknowledged.

        The stream there was ends with AbortedError, through its cancellation. Raises
        FailedPreconditionError for a number that was acknowledged or is not the next to be sent,
        InvalidArgumentError for negative credit, and as `outfeed_arrays`.
        """
        arrays = None if declared is None else outfeed_arrays(declared)

        def begin() -> OutfeedStream:
            first = next_sequence or self.sequence + 1
            if not self.sequence < first <= self.next_sequence:
                raise FailedPreconditionError(
                    f"an Outfeed stream may begin at a number between {self.sequence + 1} and "
                    f"{self.next_sequence}, got {next_sequence}",
                    hint="Items before were acknowledged, dropped by a reset, or taken by "
                    "TransferFromOutfeed.",
                )
            stream = OutfeedStream(self, declared, arrays, first, cancellation)
            stream.add_credit(credit)
            return stream

        return self._connect("Outfeed", begin)

    def close(self, *, discard: bool) -> int:
        """Refuse further items in the queue; return the number of arrays that were dropped."""
        dropped = self.queue.close(discard=discard)
        held = self.drop() if discard else 0
        # The stream looks at the queue again.
        with self.changed:
            self.changed.notify_all()
        return dropped + held

    def put_back(self) -> None:
        """Give what was not acknowledged back to the queue, unless a stream is connected."""
        with self.changed:
            if self.stream is None and self.held:
                items = [item for held in self.held for item in held.items]
                self.held.clear()
                self.queue.put_back(items)

    def drop(self) -> int:
        """Forget the held items; return the number of their arrays."""
        with self.changed:
            items = sum(len(held.items) for held in self.held)
            if self.stream is not None:
                self.stream.reset_unsent()
            self.acknowledge(self.sequence + len(self.held))
            return items

    def keep(self, items: tuple[Item, ...]) -> None:
        """Hold items that were taken from the queue, under the next number."""
        with self.changed:
            byte_size = sum(item.byte_size for item in items)
            self.held.append(UnacknowledgedItem(self.next_sequence, items, byte_size))
            if self.stream is not None:
                self.stream.count_unsent(len(items), byte_size)
            self.changed.notify_all()

    def acknowledge(self, sequence: int) -> None:
        """Drop the held items up to a number."""
        with self.changed:
            items = byte_size = 0
            while self.held and self.held[0].sequence <= sequence:
                gone = self.held.popleft()
                items, byte_size = items + len(gone.items), byte_size + gone.byte_size
                self.sequence = gone.sequence
            self.changed.notify_all()
        if items:
            self.queue.release(items, byte_size)


class OutfeedStream(FeedStream):
    """One stream of `attach`: one thread sends items, another handles the client's messages."""

    def __init__(
        self,
        side: OutfeedSide,
        declared: Shape | None,
        arrays: Sequence[Shape] | None,
        begin: int,
        cancellation: Cancellation,
    ) -> None:
        super().__init__(cancellation, 0, 0)
        self._side = side
        self.declared = None if declared is None else declared.with_default_layout()
        """The shape of all items, with layout."""
        self._declared_bytes = None if declared is None else declared.byte_size
        self._arrays = arrays
        self._taking = Cancellation()
        self._is_taking = False
        self._cursor = begin
        self._unsent_items = 0
        self._unsent_bytes = 0
        for held in self.unsent():
            self.count_unsent(len(held.items), held.byte_size)
        self._error: XlaError | None = None
        self._is_drained = False
        self.next_sequence = begin

    def add_credit(self, credit: Credit) -> None:
        """Allow more to be sent; InvalidArgumentError for a negative number."""
        if credit.items < 0 or credit.bytes < 0:
            raise InvalidArgumentError(
                f"credit must not be negative, got {credit.items} items and {credit.bytes} bytes"
            )
        with self._side.changed:
            self._credit_items = min(self._credit_items + credit.items, _MAX_CREDIT)
            self._credit_bytes = min(self._credit_bytes + credit.bytes, _MAX_CREDIT)
            self._side.changed.notify_all()

    def acknowledge(self, sequence: int) -> None:
        """Drop items the client has; InvalidArgumentError for a number that was not sent."""
        with self._side.changed:
            if not 0 <= sequence < self._cursor:
                raise InvalidArgumentError(
                    f"acknowledged must be a number that was sent, up to {self._cursor - 1}, got "
                    f"{sequence}"
                )
        self._side.acknowledge(sequence)

    def next_batch(self) -> list[tuple[int, Literal]] | None:
        """Return the available items with their numbers, waiting for one; None at the end.

        The end is `end`, or a closed queue with everything acknowledged. Raises
        InvalidArgumentError if the next item has another shape than the stream declares; the item
        stays.
        """
        changed = self._side.changed
        while True:
            self._take_all()
            with changed:
                changed.wait_for(self._is_ready)
                if self._is_ended or self._is_at_end():
                    return None
                batch = self._sendable()
                if not batch and self._error is not None:
                    raise self._error
            if batch:
                return [(held.sequence, self._literal(held)) for held in batch]

    def end(self) -> None:
        """End the stream."""
        side = self._side
        with side.changed:
            self._is_ended = True
            if side.stream is self:
                side.stream = None
            side.changed.notify_all()
        self._taking.cancel()

    def fail(self, error: XlaError) -> None:
        """Have `next_batch` raise an error."""
        with self._side.changed:
            self._error = error
            self._side.changed.notify_all()

    def count_unsent(self, items: int, byte_size: int) -> None:
        """Count items taken from the queue and not yet sent. The caller holds `changed`."""
        self._unsent_items += items
        self._unsent_bytes += byte_size

    def reset_unsent(self) -> None:
        """Reset the count of taken and unsent items. The caller holds the lock."""
        self._unsent_items = self._unsent_bytes = 0

    def _take_all(self) -> None:
        """Take the queued items, up to the credit and the size of one message."""
        while True:
            with self._side.changed:
                if not self._may_take():
                    return
                self._is_taking = True
            self._side.queue.pop(self._arrays, self._taking, self._taken, STREAM, holds=True)

    def _taken(self, outcome: tuple[Item, ...] | XlaError) -> None:
        side = self._side
        with side.changed:
            self._is_taking = False
            if not isinstance(outcome, XlaError):
                side.keep(outcome)
            elif isinstance(outcome, AbortedError):
                self._is_drained = True
            elif not self._is_ended:
                self._error = outcome
            side.changed.notify_all()

    def _is_ready(self) -> bool:
        return (
            self._is_ended
            or self._error is not None
            or self._may_take()
            or self._is_at_end()
            or (self._has_credit and self._cursor < self._side.next_sequence)
        )

    def _is_at_end(self) -> bool:
        """Return whether the queue is closed and everything acknowledged."""
        queue = self._side.queue
        is_drained = self._is_drained or (queue.is_closed and not len(queue))
        return is_drained and not self._side.held

    def _may_take(self) -> bool:
        if self._is_taking or self._is_drained or self._is_ended or self._error is not None:
            return False
        return self._unsent_items < min(self._credit_items, BATCH_ITEMS) and (
            self._unsent_bytes < min(self._credit_bytes, BATCH_BYTES)
        )

    def unsent(self) -> "itertools.islice[UnacknowledgedItem]":
        """Return the held items that this stream has not sent yet. The caller holds `changed`."""
        sent = max(0, self._cursor - self._side.sequence - 1)
        return itertools.islice(self._side.held, sent, None)

    def _sendable(self) -> list[UnacknowledgedItem]:
        batch: list[UnacknowledgedItem] = []
        items = byte_size = 0
        for held in self.unsent():
            size = self._sent_bytes(held)
            is_full = items >= BATCH_ITEMS or byte_size + size > BATCH_BYTES
            if not self._has_credit or (batch and is_full):
                break
            batch.append(held)
            items, byte_size = items + len(held.items), byte_size + size
            self._credit_items -= len(held.items)
            self._credit_bytes -= size
            self.count_unsent(-len(held.items), -held.byte_size)
            self._cursor = held.sequence + 1
        return batch

    def _sent_bytes(self, held: UnacknowledgedItem) -> int:
        """Bytes of the item's data on the wire: padded, with dynamic dimensions at their bounds."""
        if self._declared_bytes is not None:
            return self._declared_bytes
        return sum(item.shape.byte_size for item in held.items)

    def _literal(self, held: UnacknowledgedItem) -> Literal:
        arrays = self._arrays
        if arrays is not None and not fit([item.shape for item in held.items], arrays):
            raise InvalidArgumentError(
                "an item of outfeed must have the shape that the stream declares, got "
                f"{literal_of(held.items).shape.without_layout()} for {self.declared}",
                hint="The item stays: ask for its shape, or reset the device.",
            )
        return literal_of(held.items, self.declared)
