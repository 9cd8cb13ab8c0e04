"""Channels between send and recv instructions of different runs.

A channel belongs to the smallest scope that has both its ends. One program: each run of it has its
own (`execution.channel_protocol`). The programs of one ExecuteGraphParallel: `CallChannels`. The
server: `ChannelTable`. So numbers chosen in one scope never meet those of another; only a channel
of the server must have been made by CreateChannelHandle.
"""

import contextlib
import dataclasses
import enum
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xla_contract.errors import AbortedError, FailedPreconditionError, InvalidArgumentError
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import Channels, require_shape
from xla_server.ops.evaluation import Value
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.values.handles import HandleFactory, HandleKind


class ChannelType(enum.IntEnum):
    """Kinds of a channel's ends; the numbers of ChannelHandle.ChannelType."""

    DEVICE_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    HOST_TO_DEVICE = 3


_KINDS = {kind: HandleKind[f"{kind.name}_CHANNEL"] for kind in ChannelType}
_BETWEEN_PROGRAMS = (ChannelType.DEVICE_TO_DEVICE,)


@dataclasses.dataclass(slots=True)
class _Channel:
    """The values on one channel, and the queues of its senders and receivers."""

    items: deque[tuple[Shape, Value]] = dataclasses.field(default_factory=deque)
    senders: deque[object] = dataclasses.field(default_factory=deque)
    receivers: deque[object] = dataclasses.field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not (self.items or self.senders or self.receivers)


class ChannelQueues:
    """The values on any number of channels, between any number of threads.

    Each end of a channel is first come, first served. Capacity is counted over all channels, by
    items and bytes. A value larger than it is let in when all channels are empty. A value that a
    receiver waits for is always let in, so a matched pair never waits for another channel. A value
    of another shape than the receiver's stays in the channel.
    """

    def __init__(self, *, max_items: int, max_bytes: int) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._channels: dict[int, _Channel] = {}
        self._items = 0
        self._bytes = 0
        self._epoch = 0
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._channels)

    def send(self, channel_id: int, value: Value, shape: Shape, cancellation: Cancellation) -> None:
        """Append a value to a channel, waiting while it is full.

        Raises what `cancellation` raises, and AbortedError when the queues are emptied meanwhile.
        """
        size = shape.byte_size
        with self._using(channel_id) as channel, self._queued(channel.senders) as is_first:
            epoch = self._epoch

            def ready() -> bool:
                return self._epoch != epoch or (is_first() and self._has_capacity(channel, size))

            self._await(ready, cancellation)
            if self._epoch != epoch:
                raise AbortedError(
                    f"the devices were reset while {shape} waited for capacity on channel "
                    f"{channel_id}"
                )
            channel.items.append((shape, _detached(value)))
            self._items += 1
            self._bytes += size

    def receive(
        self,
        channel_id: int,
        shape: Shape,
        cancellation: Cancellation,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Value:
        """Wait for the next value of a channel and take it.

        `is_over` returns whether all senders have ended. Raises what `cancellation` raises,
        InvalidArgumentError when the value has another shape than `shape`, and
        FailedPreconditionError when it is over and there is no value.
        """
        with self._using(channel_id) as channel, self._queued(channel.receivers) as is_first:
            self._changed.notify_all()
            self._await(lambda: is_first() and bool(channel.items or is_over()), cancellation)
            if not channel.items:
                raise FailedPreconditionError(
                    "a value must be sent for each that is received, got no more for "
                    f"{shape} on channel {channel_id} before its senders ended"
                )
            sent, value = channel.items[0]
            require_shape(channel_id, sent, shape)
            channel.items.popleft()
            self._items -= 1
            self._bytes -= sent.byte_size
            return value

    def clear(self) -> None:
        """Drop all values; waiting senders get AbortedError."""
        with self._changed:
            for number, channel in list(self._channels.items()):
                channel.items.clear()
                if channel.is_idle:
                    del self._channels[number]
            self._items = self._bytes = 0
            self._epoch += 1
            self._changed.notify_all()

    def wake(self) -> None:
        """Wake all waiting threads, which check their conditions again."""
        with self._changed:
            self._changed.notify_all()

    def _has_capacity(self, channel: _Channel, size: int) -> bool:
        return (
            not self._items
            or len(channel.items) < len(channel.receivers)
            or (self._items < self._max_items and self._bytes + size <= self._max_bytes)
        )

    @contextlib.contextmanager
    def _using(self, channel_id: int) -> Iterator[_Channel]:
        """Hold the lock and yield a channel, and forget it afterwards if unused."""
        with self._changed:
            channel = self._channels.setdefault(channel_id, _Channel())
            try:
                yield channel
            finally:
                if channel.is_idle:
                    self._channels.pop(channel_id, None)

    @contextlib.contextmanager
    def _queued(self, queue: deque[object]) -> Iterator[Callable[[], bool]]:
        """Wait in a queue until the block ends; yield a test for being first."""
        ticket = object()
        queue.append(ticket)
        try:
            yield lambda: queue[0] is ticket
        finally:
            queue.remove(ticket)
            self._changed.notify_all()

    def _await(self, ready: Callable[[], bool], cancellation: Cancellation) -> None:
        with cancellation.calling(self.wake):
            cancellation.check()
            while not ready():
                with releasing_slot():
                    self._changed.wait()
                cancellation.check()


class ChannelTable:
    """The channels that CreateChannelHandle makes; between any two runs on the server.

    Handles cannot be guessed. (The reference counts from 1, but there a channel only marks
    programs.) Implements xla_server.execution.channel_protocol.Channels.
    """

    def __init__(self, handles: HandleFactory, *, max_items: int, max_bytes: int) -> None:
        self._handles = handles
        self.has_any = False
        """True once a channel was made."""
        self._queues = ChannelQueues(max_items=max_items, max_bytes=max_bytes)

    def create(self, channel_type: int) -> tuple[int, ChannelType]:
        """A new handle and its type; InvalidArgumentError for an unknown type."""
        try:
            known = ChannelType(channel_type)
        except ValueError:
            names = ", ".join(f"{kind.name} = {kind}" for kind in ChannelType)
            raise InvalidArgumentError(
                f"channel_type must be one of {names}, got {channel_type}"
            ) from None
        self.has_any = True
        return self._handles.issue(_KINDS[known]), known

    def send(self, channel_id: int, value: Value, shape: Shape, cancellation: Cancellation) -> None:
        """Send as `ChannelQueues`; FailedPreconditionError unless the channel joins programs."""
        self.require(channel_id, _BETWEEN_PROGRAMS)
        self._queues.send(channel_id, value, shape, cancellation)

    def receive(self, channel_id: int, shape: Shape, cancellation: Cancellation) -> Value:
        """Receive as `ChannelQueues`; FailedPreconditionError unless the channel joins programs."""
        self.require(channel_id, _BETWEEN_PROGRAMS)
        return self._queues.receive(channel_id, shape, cancellation)

    def reset(self) -> None:
        """Drop the values on all channels; the channels stay."""
        self._queues.clear()

    def require(self, channel_id: int, types: Sequence[ChannelType]) -> None:
        """Raise FailedPreconditionError unless a channel of one of these types was made."""
        for made, kind in _KINDS.items():
            if self._handles.was_issued(channel_id, kind):
                if made in types:
                    return
                names = " or ".join(kind.name for kind in types)
                raise FailedPreconditionError(
                    f"the channel must be of type {names} here, got channel {channel_id} of type "
                    f"{made.name}"
                )
        if ChannelType.DEVICE_TO_DEVICE not in types:
            raise FailedPreconditionError(
                "a channel from or to the host must be made by CreateChannelHandle, got channel "
                f"{channel_id}"
            )
        raise FailedPreconditionError(
            "a channel must have both ends in the programs of one call or be made by "
            f"CreateChannelHandle, got channel {channel_id}"
        )


class CallChannels:
    """The channels of programs that run together: the call's own, else the server's.

    A channel with both ends in these programs is the call's own. `ends` has, for each program, the
    channels it sends on and those it receives on. Implements
    xla_server.execution.channel_protocol.Channels.
    """

    def __init__(
        self,
        ends: Sequence[tuple[frozenset[int], frozenset[int]]],
        server: Channels,
        *,
        max_items: int,
        max_bytes: int,
    ) -> None:
        self._senders = [sent for sent, _ in ends]
        received = frozenset[int]().union(*(receives for _, receives in ends))
        self._shared = frozenset[int]().union(*self._senders) & received
        self._is_running = [True] * len(ends)
        self._server = server
        self._queues = ChannelQueues(max_items=max_items, max_bytes=max_bytes)

    def send(self, channel_id: int, value: Value, shape: Shape, cancellation: Cancellation) -> None:
        """Send on the call's own channel, else on the server's."""
        channels = self._queues if channel_id in self._shared else self._server
        channels.send(channel_id, value, shape, cancellation)

    def receive(self, channel_id: int, shape: Shape, cancellation: Cancellation) -> Value:
        """Receive from the call's own channel, else from the server's."""
        if channel_id not in self._shared:
            return self._server.receive(channel_id, shape, cancellation)

        def is_over() -> bool:
            programs = zip(self._senders, self._is_running, strict=True)
            return not any(running and channel_id in sent for sent, running in programs)

        return self._queues.receive(channel_id, shape, cancellation, is_over)

    @property
    def has_shared(self) -> bool:
        """True if a program sends where another one receives."""
        return bool(self._shared)

    def ended(self, program: int) -> None:
        """Record that a program sends no more values."""
        self._is_running[program] = False
        self._queues.wake()


def _detached(value: Value) -> Value:
    """The value, copied if it is a view: a queued value must not keep a larger array alive."""
    if isinstance(value, tuple):
        return tuple(map(_detached, value))
    if isinstance(value, np.ndarray) and value.base is not None:
        return value.copy()
    return value
