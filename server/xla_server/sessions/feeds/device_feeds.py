"""The feeds of a device: infeed, outfeed and host channels, for programs and for clients.

Programs run in threads of pools, which may wait here (`Feeds` of the evaluator) and lend their
slots meanwhile. Clients' calls wait as callbacks, and streams as `infeed_stream` and
`outfeed_stream` say.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.feed_protocol import FeedUse
from xla_server.ops.evaluation import Value
from xla_server.sessions.feeds.channel_table import ChannelType
from xla_server.sessions.feeds.feed_queue import FeedQueue
from xla_server.sessions.feeds.infeed_stream import InfeedSide
from xla_server.sessions.feeds.item_conversion import (
    arrays_of,
    infeed_arrays,
    items_of_literal,
    items_of_value,
    outfeed_arrays,
)
from xla_server.sessions.feeds.outfeed_stream import OutfeedSide
from xla_server.sessions.feeds.queue_entries import Done, FeedClient, Item, Lent
from xla_server.sessions.limits.blocking import releasing_slot

T = TypeVar("T")

MAX_HOST_CHANNELS = 32
"""Largest number of host channels with a queue on one device of a session."""

CHANNEL_SHARE = 16
"""A host channel's queue has this part of the bytes that infeed has: all channels of a device
together have as much as infeed and outfeed."""


class FeedPair:
    """A queue that programs read and one that they write, of one device. Thread-safe.

    `name` is that of the channel; without one they are infeed and outfeed.
    """

    def __init__(self, name: str = "", *, max_items: int, max_bytes: int) -> None:
        infeed = FeedQueue(name or "infeed", max_items=max_items, max_bytes=max_bytes)
        outfeed = FeedQueue(name or "outfeed", max_items=max_items, max_bytes=max_bytes)
        self.infeed = InfeedSide(infeed)
        self.outfeed = OutfeedSide(outfeed)

    def transfer_to_infeed(self, literal: Literal, cancellation: Cancellation, done: Done) -> None:
        """Append a literal to infeed once it fits, then call `done(None)`.

        Or with the error: AbortedError when the device is reset meanwhile or the queue is closed,
        and what `cancellation` raises. Raises as `infeed_arrays`.
        """
        items = items_of_literal(literal, infeed_arrays(literal.shape))
        self.infeed.queue.put(items, cancellation, done, FeedClient("TransferToInfeed"))

    def transfer_from_outfeed(
        self,
        shape: Shape,
        cancellation: Cancellation,
        done: Lent,
    ) -> None:
        """Lend the next value of outfeed, of this shape, to `done` once it is queued.

        The value leaves the queue when `BorrowedItems.keep` is called. If no stream is connected,
        values that the last one did not acknowledge come first.

        `done` may be called with an error instead: InvalidArgumentError if the value has another
        shape, AbortedError if the queue is closed, and the error of `cancellation`. Raises the
        errors of `outfeed_arrays`.
        """
        arrays = outfeed_arrays(shape)
        self.outfeed.put_back()
        self.outfeed.queue.lend(arrays, cancellation, done, FeedClient("TransferFromOutfeed"))

    def sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Items and bytes of infeed, and of outfeed."""
        return self.infeed.queue.size, self.outfeed.queue.size

    def reset(self) -> None:
        """Empty both queues, and open them if they were closed."""
        self.infeed.queue.clear()
        self.outfeed.drop()
        self.outfeed.queue.clear()

    @property
    def is_over(self) -> bool:
        """True if a queue was closed, and neither holds items or has a stream."""
        queues = self.infeed.queue, self.outfeed.queue
        is_streaming = self.infeed.stream is not None or self.outfeed.stream is not None
        has_items = any(queue.size[0] for queue in queues)
        return any(queue.is_closed for queue in queues) and not has_items and not is_streaming


class DeviceFeeds(FeedPair):
    """Infeed, outfeed and the host channels of one device and one session. Thread-safe.

    `require_channel` raises FailedPreconditionError unless a channel of one of these types exists.
    """

    def __init__(
        self,
        *,
        max_items: int,
        max_bytes: int,
        require_channel: Callable[[int, Sequence[ChannelType]], None],
    ) -> None:
        super().__init__(max_items=max_items, max_bytes=max_bytes)
        self._max_items = max_items
        self._channel_bytes = max(1, max_bytes // CHANNEL_SHARE)
        self._require_channel = require_channel
        self._channels: dict[int, FeedPair] = {}
        self._lock = threading.Lock()

    def bound_to(self, name: str, execution: int = 0) -> "ProgramFeeds":
        """The queues for a program, whose name describes its waiting instructions.

        `execution` is the handle of the execution, if it was launched.
        """
        return ProgramFeeds(self, name, execution)

    def channel(self, channel_id: int, *types: ChannelType) -> FeedPair:
        """Return the queues of a channel of one of these types, made when first requested.

        A channel to the host has the second queue, one from the host the first. Raises
        FailedPreconditionError as `require_channel`, and ResourceExhaustedError for more than
        MAX_HOST_CHANNELS channels whose queues are open or not empty.
        """
        self._require_channel(channel_id, types)
        with self._lock:
            feeds = self._channels.get(channel_id)
            if feeds is None:
                if len(self._channels) >= MAX_HOST_CHANNELS:
                    self._forget_closed()
                feeds = self._channels[channel_id] = FeedPair(
                    f"channel {channel_id}",
                    max_items=self._max_items,
                    max_bytes=self._channel_bytes,
                )
        return feeds

    def pairs(self) -> "list[FeedPair]":
        """The device's own queues, and those of its channels."""
        with self._lock:
            return [self, *self._channels.values()]

    def _forget_closed(self) -> None:
        """Forget the queues of closed channels. Under the lock."""
        self._channels = {
            number: feeds for number, feeds in self._channels.items() if not feeds.is_over
        }
        if len(self._channels) >= MAX_HOST_CHANNELS:
            raise ResourceExhaustedError(
                f"{MAX_HOST_CHANNELS} host channels may be in use on a device, got one more",
                hint="Close those that are not used any more, by CloseFeed.",
            )


class ProgramFeeds:
    """The queues as one execution sees them: its thread waits. Implements `Feeds`.

    Every execution has one and few use it, so nothing is made before the first use.
    """

    __slots__ = ("_execution", "_feeds", "_name", "_users")

    def __init__(self, feeds: DeviceFeeds, name: str, execution: int) -> None:
        self._feeds = feeds
        self._name = name
        self._execution = execution
        self._users: dict[str, FeedClient] = {}

    def take_infeed(self, shape: Shape, cancellation: Cancellation, use: FeedUse) -> Value:
        """Take the next value as Feeds.take_infeed says.

        Raises UnimplementedError for a tuple of tuples, AbortedError when the queue is closed, and
        as `DeviceFeeds.channel`, too.
        """
        queue = self._pair(use.channel_id, ChannelType.HOST_TO_DEVICE).infeed.queue
        arrays = arrays_of(shape, queue.name)
        user = self._client(use.instruction)
        items: tuple[Item, ...] = _wait(lambda done: queue.pop(arrays, cancellation, done, user))
        return tuple(item.value for item in items) if shape.is_tuple else items[0].value

    def put_outfeed(
        self, value: Value, shape: Shape, cancellation: Cancellation, use: FeedUse
    ) -> None:
        """Append a value as Feeds.put_outfeed says.

        Raises UnimplementedError for a tuple of tuples, AbortedError when the device is reset
        meanwhile or the queue is closed, and as `DeviceFeeds.channel`, too.
        """
        queue = self._pair(use.channel_id, ChannelType.DEVICE_TO_HOST).outfeed.queue
        items = items_of_value(value, shape)
        user = self._client(use.instruction)
        if not items:
            return

        def begin(done: Done) -> None:
            queue.put(items, cancellation, done, user)

        _wait(begin)

    def _pair(self, channel_id: int | None, kind: ChannelType) -> FeedPair:
        return self._feeds if channel_id is None else self._feeds.channel(channel_id, kind)

    def _client(self, instruction: str) -> FeedClient:
        user = self._users.get(instruction)
        if user is None:
            user = FeedClient(self._name, instruction, self._execution)
            self._users[instruction] = user
        return user


def _wait(begin: Callable[[Callable[[T | XlaError], None]], None]) -> T:
    """Wait for the outcome that `begin` passes to its callback; return it or raise it."""
    outcomes: queue.SimpleQueue[T | XlaError] = queue.SimpleQueue()
    begin(outcomes.put)
    try:
        outcome = outcomes.get_nowait()
    except queue.Empty:
        with releasing_slot():
            outcome = outcomes.get()
    if isinstance(outcome, XlaError):
        raise outcome
    return outcome
