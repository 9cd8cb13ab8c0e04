"""Contents of a feed's queue, counted. The queue's lock guards them."""

import itertools
from collections import deque
from collections.abc import Sequence

from xla_server.sessions.feeds.queue_entries import Item


class QueueContents:
    """Queued arrays in order, and held ones: popped, but still counted. Not thread-safe."""

    __slots__ = ("byte_size", "consumed", "epoch", "held_bytes", "held_items", "items")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.byte_size = 0
        """Bytes of `items`."""
        self.held_items = 0
        self.held_bytes = 0
        self.epoch = 0
        """Number of calls of `drop`."""
        self.consumed = 0
        """The largest number of a value that was taken or dropped."""

    def __len__(self) -> int:
        return len(self.items)

    @property
    def used(self) -> tuple[int, int]:
        """Number and bytes of items, the held ones included."""
        return len(self.items) + self.held_items, self.byte_size + self.held_bytes

    def append(self, items: Sequence[Item]) -> None:
        """Add items behind all others."""
        self.items.extend(items)
        self.byte_size += sum(item.byte_size for item in items)

    def first(self, count: int) -> tuple[Item, ...]:
        """The first items, which stay."""
        return tuple(itertools.islice(self.items, count))

    def value_count(self) -> int | None:
        """Return the number of items of the first value; None if its last one has not arrived."""
        for number, item in enumerate(self.items):
            if item.is_last:
                return number + 1
        return None

    def pop(self, count: int, *, holds: bool = False) -> tuple[Item, ...]:
        """Pop the first items; with `holds` they are counted until `release` or `put_back`."""
        items = tuple(self.items.popleft() for _ in range(count))
        byte_size = sum(item.byte_size for item in items)
        self.byte_size -= byte_size
        if holds:
            self.held_items += count
            self.held_bytes += byte_size
        self._consume(items)
        return items

    def release(self, items: int, byte_size: int) -> None:
        """Stop counting `items` held items and their bytes."""
        self.held_items -= items
        self.held_bytes -= byte_size

    def put_back(self, items: Sequence[Item]) -> None:
        """Return held items to the front."""
        byte_size = sum(item.byte_size for item in items)
        self.release(len(items), byte_size)
        self.items.extendleft(reversed(items))
        self.byte_size += byte_size

    def drop(self) -> int:
        """Forget the queued items, not the held ones; return how many there were."""
        count = len(self.items)
        self._consume(self.items)
        self.items.clear()
        self.byte_size = 0
        self.epoch += 1
        return count

    def _consume(self, items: "Sequence[Item] | deque[Item]") -> None:
        for item in items:
            self.consumed = item.sequence or self.consumed
