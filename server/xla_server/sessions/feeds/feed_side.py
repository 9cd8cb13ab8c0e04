"""Base of the clients' ends of infeed and outfeed: one stream at a time on a queue."""

import abc
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from xla_contract.errors import AbortedError, XlaError
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.feeds.feed_queue import FeedQueue
from xla_server.sessions.feeds.queue_entries import Done, FeedClient, WaitState


class FeedStream(abc.ABC):
    """One stream, with the credit that its sender has left: arrays, and bytes of their data."""

    def __init__(self, cancellation: Cancellation, credit_items: int, credit_bytes: int) -> None:
        self._cancellation = cancellation
        self._credit_items = credit_items
        self._credit_bytes = credit_bytes
        self._is_ended = False

    @property
    def _has_credit(self) -> bool:
        return self._credit_items > 0 and self._credit_bytes > 0

    @abc.abstractmethod
    def end(self) -> object:
        """End the stream."""

    def abort(self, error: XlaError) -> None:
        """End the stream with an error."""
        self.end()
        self._cancellation.cancel(error)


S = TypeVar("S", bound=FeedStream)


class FeedSide(abc.ABC, Generic[S]):
    """State of a queue that outlives its streams. Thread-safe."""

    def __init__(self, queue: FeedQueue) -> None:
        self.queue = queue
        self.stream: S | None = None
        self.sequence = 0
        """The number of the last item that its receiver has."""
        # Callbacks of the queue take it again in the same thread.
        self.changed = threading.Condition(threading.RLock())

    def front(self) -> list[Shape]:
        """The shapes of the first arrays."""
        return self.queue.front()

    def waiting(self) -> Sequence[WaitState]:
        """The waiting clients, with reasons."""
        return self.queue.waiting()

    def drain(self, cancellation: Cancellation, done: Done) -> None:
        """Call `done(None)` once the receivers have all items, or with `cancellation`'s error."""
        self.queue.drain(cancellation, done, FeedClient("DrainFeed"))

    @abc.abstractmethod
    def close(self, *, discard: bool) -> int:
        """Refuse further items in the queue; return the number of arrays that were dropped."""

    def _connect(self, rpc: str, begin: Callable[[], S]) -> S:
        """Begin a stream; the previous one ends with AbortedError, through its cancellation."""
        with self.changed:
            stream, previous = begin(), self.stream
            if previous is not None:
                previous.end()
            self.stream = stream
            self.queue.open()
        if previous is not None:
            previous.abort(AbortedError(f"another {rpc} stream has replaced this one"))
        return stream
