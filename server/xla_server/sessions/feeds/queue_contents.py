"""Contents of a feed's queue, counted. The queue's lock guards them."""

import itertools
from collections import deque
from collections.abc import Sequence

from xla_server.sessions.feeds.queue_entries import Item


class QueueContents:
    """Arrays in order, and those that were taken and go on to use room. Not for several threads."""

    __slots__ = ("byte_size", "consumed", "epoch", "held_bytes", "held_items", "items")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.byte_size = 0
        """Bytes of `items`."""
        self.held_items = 0
        self.held_bytes = 0
        self.epoch = 0
        """Number of times that it was dropped."""
        self.consumed = 0
        """The largest number of a value that was taken or dropped."""

    def __len__(self) -> int:
        return len(self.items)

    @property
    def used(self) -> tuple[int, int]:
        """Items and bytes, those that are held included."""
        return len(self.items) + self.held_items, self.byte_size + self.held_bytes

    def append(self, items: Sequence[Item]) -> None:
        """Add items behind all others."""
        self.items.extend(items)
        self.byte_size += sum(item.byte_size for item in items)

    def first(self, count: int) -> tuple[Item, ...]:
        """The first items, which stay."""
        return tuple(itertools.islice(self.items, count))

    def value_count(self) -> int | None:
        """Return the number of items of the first value; None if its last one is not there."""
        for number, item in enumerate(self.items):
            if item.is_last:
                return number + 1
        return None

    def take(self, count: int, *, holds: bool = False) -> tuple[Item, ...]:
        """Take the first items; with `holds` they use room until `release` or `put_back`."""
        items = tuple(self.items.popleft() for _ in range(count))
        byte_size = sum(item.byte_size for item in items)
        self.byte_size -= byte_size
        if holds:
            self.held_items += count
            self.held_bytes += byte_size
        self._consume(items)
        return items

    def release(self, items: int, byte_size: int) -> None:
        """Give back the room of so many items that were held, and their bytes."""
        self.held_items -= items
        self.held_bytes -= byte_size

    def put_back(self, items: Sequence[Item]) -> None:
        """Put items that were held before all others again."""
        byte_size = sum(item.byte_size for item in items)
        self.release(len(items), byte_size)
        self.items.extendleft(reversed(items))
        self.byte_size += byte_size

    def drop(self) -> int:
        """Forget all items, but not what is held; gives how many there were."""
        count = len(self.items)
        self._consume(self.items)
        self.items.clear()
        self.byte_size = 0
        self.epoch += 1
        return count

    def _consume(self, items: "Sequence[Item] | deque[Item]") -> None:
        for item in items:
            self.consumed = item.sequence or self.consumed
