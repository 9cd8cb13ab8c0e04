"""A queue between programs and clients, in which callbacks wait instead of threads.

A queue holds arrays. A tuple enters as its elements and leaves as as many arrays as its shape
has, each time in one step, so that `(a, b)` may also be fed as `a` and then `b`.

The rules:
- Producers are served first come, first served, and so are consumers.
- A queue is full by items or by bytes. An item larger than the queue is let in when the queue is
  empty. Arrays that a waiting consumer still lacks are always let in, so no wait lasts forever.
- Items for which a stream has credit are let in without waiting. Credit is granted for free
  capacity, so a queue exceeds its capacity at most by items that others added since the grant.
- A value of another shape than the consumer's stays in the queue: the consumer fails, and the queue
  can be read with the right shape or emptied by ResetDevice.
- Cancelling a consumer loses no item and cancelling a producer leaves none behind.
- Emptying a queue also ends (AbortedError) waiting producers, because their items precede the
  reset; consumers keep waiting.
- A closed queue refuses producers, and consumers that need more items than it holds.
- Callbacks are called in the thread that ends the wait, with no lock held.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xla_contract.errors import AbortedError, InvalidArgumentError, XlaError
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.error_context import copy_of
from xla_server.sessions.feeds.queue_contents import QueueContents
from xla_server.sessions.feeds.queue_entries import (
    BorrowedItems,
    Done,
    FeedClient,
    Item,
    Lent,
    QueueConsumer,
    QueueProducer,
    QueueWaiter,
    Taken,
    WaitState,
)

MAX_FRONT = 16
"""Number of first items whose shapes are described."""

MAX_DESCRIBED_WAITERS = 256
"""Largest number of waiting clients that are described."""

_Calls: TypeAlias = list[Callable[[], None]]


class FeedQueue:
    """A bounded queue of arrays between any number of parties. Thread-safe."""

    def __init__(self, name: str, *, max_items: int, max_bytes: int) -> None:
        self.name = name
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.observer: Callable[[], None] | None = None
        """Called after items or free capacity have changed, with no lock held."""
        self._contents = QueueContents()
        self._borrower: QueueConsumer | None = None
        self.is_closed = False
        """True after `close`, until `open` or `clear`."""
        self._fitting: tuple[Shape, Shape] | None = None
        self._producers: deque[QueueProducer] = deque()
        self._consumers: deque[QueueConsumer] = deque()
        self._drainers: deque[QueueWaiter] = deque()
        self._lock = threading.Lock()

    # State ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._contents)

    @property
    def size(self) -> tuple[int, int]:
        """Number and bytes of items, those held for a stream included."""
        return self._contents.used

    @property
    def consumed(self) -> int:
        """The largest number of a value that was taken, or dropped by `clear`."""
        return self._contents.consumed

    def free_capacity(self) -> tuple[int, int]:
        """Free capacity in items and bytes: at least 1 of both if a consumer lacks items."""
        with self._lock:
            items, byte_size = self.size
            lacking = self._lacking()
            free = self.max_items - items, self.max_bytes - byte_size
            return (max(free[0], lacking), max(free[1], 1)) if lacking else free

    def lacking(self) -> int:
        """Number of items that the first consumer still lacks; 1 without one at an empty queue."""
        with self._lock:
            return self._lacking()

    def front(self) -> list[Shape]:
        """The shapes of the first items."""
        with self._lock:
            return [item.shape for item in self._contents.first(MAX_FRONT)]

    def waiting(self) -> list[WaitState]:
        """Return at most MAX_DESCRIBED_WAITERS waiting clients with reasons, consumers first."""
        now = time.monotonic()
        with self._lock:
            # The holder of a loan is in the queue and waits for nothing.
            positions = (
                (each, before)
                for wait_queue in (self._consumers, self._producers, self._drainers)
                for before, each in enumerate(wait_queue)
                if not each.is_settled
            )
            return [
                WaitState(each.user, each.shape, now - each.since, self._reason(each, before))
                for each, before in itertools.islice(positions, MAX_DESCRIBED_WAITERS)
            ]

    # Putting --------------------------------------------------------------------------------

    def put(
        self, items: Sequence[Item], cancellation: Cancellation, done: Done, user: FeedClient
    ) -> None:
        """Append the items in one step once they fit, then call `done(None)`.

        `done` may get an error instead: that of `cancellation`, or AbortedError if the queue is
        emptied or closed meanwhile. `done` is called once, possibly before this returns.
        """
        self._enter(QueueProducer(user, done, self._producers, items), cancellation)

    def offer(self, values: Sequence[Sequence[Item]]) -> list[InvalidArgumentError | None]:
        """Append values that have credit, each in one step, without waiting for capacity.

        Returns for each its refusal, or None. A value is refused if it does not fit the first
        waiting consumer. Raises AbortedError when the queue is closed.
        """
        calls: _Calls = []
        refusals: list[InvalidArgumentError | None] = []
        try:
            with self._lock:
                for items in values:
                    if self.is_closed:
                        raise self._closed(f"{_shapes(items)} came")
                    refusal = self._refusal(items)
                    refusals.append(refusal)
                    if refusal is None:
                        self._contents.append(items)
                        calls += self._serve_waiters()
        finally:
            self._run(calls)
        return refusals

    # Taking ---------------------------------------------------------------------------------

    def pop(
        self,
        shapes: Sequence[Shape] | None,
        cancellation: Cancellation,
        done: Taken,
        user: FeedClient,
        *,
        holds: bool = False,
    ) -> None:
        """Take items of these shapes once they are queued, and call `done` with them.

        Without `shapes` it takes the next value of any shape. With `holds` the items still count
        against capacity, until `release`.

        `done` is called once, maybe before this returns, with the items or an error: that of
        `cancellation`, InvalidArgumentError if a queued item has another shape, AbortedError if the
        queue is closed without the items.
        """
        self._enter(QueueConsumer(user, done, self._consumers, shapes, holds=holds), cancellation)

    def lend(
        self,
        shapes: Sequence[Shape],
        cancellation: Cancellation,
        done: Lent,
        user: FeedClient,
    ) -> None:
        """Pop items as `pop` does, but keep them in the queue until the loan is ended."""
        self._enter(
            QueueConsumer(user, done, self._consumers, shapes, is_lending=True), cancellation
        )

    def release(self, items: int, byte_size: int) -> None:
        """Release the capacity of items that were held."""
        with self._lock:
            self._contents.release(items, byte_size)
            calls = self._serve_waiters()
        self._run(calls)

    def put_back(self, items: Sequence[Item]) -> None:
        """Return held items to the front of the queue."""
        with self._lock:
            self._contents.put_back(items)
            calls = self._serve_waiters()
        self._run(calls)

    # The whole ------------------------------------------------------------------------------

    def drain(self, cancellation: Cancellation, done: Done, user: FeedClient) -> None:
        """Call `done(None)` once no item is queued or held, or with the error of `cancellation`."""
        self._enter(QueueWaiter(user, done, self._drainers), cancellation)

    def clear(self) -> None:
        """Empty the queue, refuse the waiting producers, and open it if it was closed."""
        with self._lock:
            self.is_closed = False
            self._contents.drop()
            calls = self._refuse_producers(
                lambda producer: AbortedError(
                    f"the device was reset while {producer.shape} waited for capacity in its "
                    f"{self.name} queue"
                )
            )
            calls += self._serve_waiters()
        self._run(calls)

    def close(self, *, discard: bool = False) -> int:
        """Refuse items until `open` or `clear`; return the number of items that were dropped."""
        with self._lock:
            self.is_closed = True
            dropped = self._contents.drop() if discard else 0
            calls = self._refuse_producers(
                lambda producer: self._closed(f"{producer.shape} waited for capacity")
            )
            calls += self._serve_waiters()
        self._run(calls)
        return dropped

    def open(self) -> None:
        """Let items in again after `close`."""
        with self._lock:
            self.is_closed = False

    # Under the lock -------------------------------------------------------------------------

    def _serve_waiters(self) -> _Calls:
        """Serve all waiters that can be served; return the callbacks to run without the lock."""
        calls: _Calls = []
        while self._admit_producer(calls) or self._serve_consumer(calls):
            pass
        if not any(self.size) and self._borrower is None:
            for drainer in list(self._drainers):
                calls.append(_settled(drainer, None))
        return calls

    def _admit_producer(self, calls: _Calls) -> bool:
        if not self._producers:
            return False
        producer = self._producers[0]
        if self.is_closed:
            calls.append(_settled(producer, self._closed(f"{producer.shape} came")))
            return True
        if not self._has_capacity(producer):
            return False
        self._contents.append(producer.items)
        calls.append(_settled(producer, None))
        return True

    def _serve_consumer(self, calls: _Calls) -> bool:
        consumer = self._next_consumer
        if consumer is None:
            return False
        error: XlaError | None = self._mismatch(consumer)
        count = self._count_for(consumer)
        if error is None and count is None and self.is_closed:
            error = self._closed(f"{consumer.user} waited for {consumer.shape or 'an item'}")
        if error is not None:
            calls.append(_settled(consumer, error))
            return True
        if count is None:
            return False
        if consumer.is_lending:
            calls.append(consumer.notification(self._lend(consumer, count)))
        else:
            calls.append(_settled(consumer, self._contents.pop(count, holds=consumer.holds)))
        return True

    def _lend(self, consumer: QueueConsumer, count: int) -> BorrowedItems:
        """Lend the first items; the consumer stays in the queue until the loan ends."""
        self._borrower = consumer
        consumer.is_settled = True
        items, epoch = self._contents.first(count), self._contents.epoch
        return BorrowedItems(items, lambda is_kept: self._end_loan(consumer, items, epoch, is_kept))

    @property
    def _next_consumer(self) -> QueueConsumer | None:
        """The consumer to be served next; None while a loan keeps the first items."""
        return self._consumers[0] if self._consumers and self._borrower is None else None

    def _has_capacity(self, producer: QueueProducer) -> bool:
        items, byte_size = self.size
        if not items:
            return True
        first = self._next_consumer
        if (
            first is not None
            and len(self._contents) < first.min_items
            # A consumer that holds items gets more only after they are released.
            and not (first.holds and self._contents.held_items)
        ):
            return True
        return (
            items + len(producer.items) <= self.max_items
            and byte_size + producer.byte_size <= self.max_bytes
        )

    def _lacking(self) -> int:
        first = self._next_consumer
        if first is not None:
            return max(0, first.min_items - len(self._contents))
        return 0 if self._contents.items else 1

    def _count_for(self, consumer: QueueConsumer) -> int | None:
        """Return the number of items for the consumer; None if too few are queued."""
        if consumer.shapes is not None:
            return len(consumer.shapes) if len(self._contents) >= len(consumer.shapes) else None
        return self._contents.value_count()

    def _mismatch(self, consumer: QueueConsumer) -> InvalidArgumentError | None:
        # The shapes are compared as items come in: waiting for the rest of a tuple that cannot
        # fit any more would hide the mistake.
        for item, shape in zip(self._contents.items, consumer.shapes or (), strict=False):
            if not self._fits(item.shape, shape):
                return InvalidArgumentError(
                    f"the next value of the {self.name} queue must have the shape that is asked "
                    f"for, got {item.shape.without_layout()} in the queue and "
                    f"{shape.without_layout()} asked for",
                    hint="The value stays in the queue: ask for its shape, or reset the device.",
                )
        return None

    def _refusal(self, items: Sequence[Item]) -> InvalidArgumentError | None:
        """Return the error if items do not fit what remains of the first waiting consumer."""
        first = self._next_consumer
        if first is None or first.shapes is None:
            return None
        for item, shape in zip(items, first.shapes[len(self._contents) :], strict=False):
            if not self._fits(item.shape, shape):
                return InvalidArgumentError(
                    f"an item of {self.name} must have the shape that is waited for, got "
                    f"{_shapes(items)} where {first.user} waits for {first.shape}",
                    hint="The item was dropped and the program goes on waiting.",
                )
        return None

    def _fits(self, shape: Shape, requested: Shape) -> bool:
        # Usually it is the same two objects again and again.
        if (
            self._fitting is not None
            and shape is self._fitting[0]
            and requested is self._fitting[1]
        ):
            return True
        fits = shape.fits(requested)
        if fits:
            self._fitting = shape, requested
        return fits

    def _refuse_producers(self, error_of: Callable[[QueueWaiter], XlaError]) -> _Calls:
        return [_settled(producer, error_of(producer)) for producer in list(self._producers)]

    def _closed(self, what: str) -> AbortedError:
        return AbortedError(
            f"the {self.name} queue must be open, got it closed where {what}",
            hint="Start a stream of the feed, or reset the device, to open it again.",
        )

    def _reason(self, waiter: QueueWaiter, before: int) -> str:
        """Return why a client waits behind `before` others: a sentence that explains deadlocks."""
        contents = self._contents
        (items, byte_size), queued = contents.used, len(contents)
        text = f"{self.name} {waiter.user} waits for "
        if isinstance(waiter, QueueConsumer):
            text += f"{waiter.shape or 'an item'}; "
            if self._borrower is not None or before:
                return f"{text}{before} before it in the queue"
            if not queued:
                return f"{text}the queue is empty"
            return f"{text}{queued} arrays are there, the first of them {contents.items[0].shape}"
        if isinstance(waiter, QueueProducer):
            held = contents.held_items
            of_them = f", {held} of them sent and not acknowledged" if held else ""
            first = f"; the first item of the queue is {contents.items[0].shape}" if queued else ""
            return (
                f"{text}capacity for {waiter.shape}; the queue holds {items} of {self.max_items} "
                f"items{of_them} and {byte_size} of {self.max_bytes} bytes{first}"
            )
        return f"{waiter.user} waits until {items} items are gone"

    # Without the lock -----------------------------------------------------------------------

    def _enter(self, waiter: QueueWaiter, cancellation: Cancellation) -> None:
        """Append a client to its wait queue; `cancellation` ends the wait, too."""
        with self._lock:
            waiter.wait_queue.append(waiter)
            calls = [] if cancellation.is_cancelled else self._serve_waiters()
        self._run(calls)
        if waiter.is_settled:
            return
        forget = cancellation.add_callback(lambda: self._give_up(waiter, cancellation))
        with self._lock:
            waiter.forget = forget
            is_settled = waiter.is_settled
        if is_settled:
            forget()

    def _give_up(self, waiter: QueueWaiter, cancellation: Cancellation) -> None:
        error = cancellation.error
        assert error is not None, "it is called once there is one"
        with self._lock:
            if waiter.is_settled:
                return
            calls = [_settled(waiter, copy_of(error)), *self._serve_waiters()]
        self._run(calls)

    def _end_loan(
        self, consumer: QueueConsumer, items: tuple[Item, ...], epoch: int, is_kept: bool
    ) -> None:
        with self._lock:
            if self._borrower is not consumer:
                return
            self._borrower = None
            self._consumers.remove(consumer)
            if is_kept and self._contents.epoch == epoch:
                self._contents.pop(len(items))
            calls = self._serve_waiters()
        self._run(calls)

    def _run(self, calls: _Calls) -> None:
        for call in calls:
            call()
        if self.observer is not None:
            self.observer()


def _settled(waiter: QueueWaiter, outcome: object) -> Callable[[], None]:
    """End a wait; return what reports the outcome, to be called without the lock."""
    waiter.settle()
    return waiter.notification(outcome)


def _shapes(items: Sequence[Item]) -> str:
    return ", ".join(str(item.shape) for item in items)
