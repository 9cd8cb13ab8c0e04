"""Items of a feed's queue, and its waiting producers and consumers."""

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xla_contract.errors import XlaError
from xla_contract.types.shape import Shape
from xla_server.ops.evaluation import Array


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """One array in a feed.

    A value is one array, or with `in_tuple` the arrays of a tuple; `is_last` ends it. `sequence`
    is the number of a value that came by a stream, in its last array.
    """

    shape: Shape
    value: Array
    in_tuple: bool = False
    is_last: bool = True
    sequence: int = 0

    @property
    def byte_size(self) -> int:
        """Bytes of the array: for a dynamic shape, those of its actual sizes."""
        return self.value.nbytes


@dataclasses.dataclass(frozen=True, slots=True)
class FeedClient:
    """Client of a queue: an rpc, or an instruction of a program in an execution."""

    name: str
    instruction: str = ""
    execution: int = 0
    """The handle of the execution, if it was launched."""

    def __str__(self) -> str:
        return f"%{self.instruction} of module {self.name}" if self.instruction else self.name


@dataclasses.dataclass(frozen=True, slots=True)
class WaitState:
    """Description of a waiting client: seconds, shape, and reason."""

    user: FeedClient
    shape: Shape | None
    seconds: float
    reason: str


Done: TypeAlias = Callable[[XlaError | None], None]
Taken: TypeAlias = Callable[[tuple[Item, ...] | XlaError], None]
Lent: TypeAlias = Callable[["BorrowedItems | XlaError"], None]


@dataclasses.dataclass(slots=True, eq=False)
class QueueWaiter:
    """A waiting producer, consumer or drain. The queue's lock guards it."""

    user: FeedClient
    on_settled: Callable[[Any], None]
    wait_queue: "deque[Any]"
    since: float = dataclasses.field(default_factory=time.monotonic, init=False)
    is_settled: bool = dataclasses.field(default=False, init=False)
    forget: Callable[[], None] | None = dataclasses.field(default=None, init=False)

    @property
    def shape(self) -> Shape | None:
        """The shape that it produces or requests; None if that does not matter."""
        return None

    def settle(self) -> None:
        """Leave the wait queue: the wait is over."""
        self.is_settled = True
        self.wait_queue.remove(self)

    def notification(self, outcome: object) -> Callable[[], None]:
        """Return a function that reports the outcome, to be called without the lock."""

        def call() -> None:
            if self.forget is not None:
                self.forget()
            self.on_settled(outcome)

        return call


@dataclasses.dataclass(slots=True, eq=False)
class QueueProducer(QueueWaiter):
    """A producer that waits for capacity for its items."""

    items: Sequence[Item]
    byte_size: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.byte_size = sum(item.byte_size for item in self.items)

    @property
    def shape(self) -> Shape:
        """The shape that it produces."""
        return joined([item.shape for item in self.items], self.items[0].in_tuple)


@dataclasses.dataclass(slots=True, eq=False)
class QueueConsumer(QueueWaiter):
    """A consumer that waits for items of these shapes; with None, for the next value."""

    shapes: Sequence[Shape] | None
    is_lending: bool = dataclasses.field(default=False, kw_only=True)
    holds: bool = dataclasses.field(default=False, kw_only=True)

    @property
    def min_items(self) -> int:
        """The least number of items that it takes."""
        return 1 if self.shapes is None else len(self.shapes)

    @property
    def shape(self) -> Shape | None:
        """The requested shape; None for any."""
        return None if self.shapes is None else joined(self.shapes)


class BorrowedItems:
    """Items lent to their consumer, until `keep` or `release`; other consumers wait."""

    def __init__(self, items: tuple[Item, ...], end: Callable[[bool], None]) -> None:
        self.items = items
        self._end = end

    def keep(self) -> None:
        """Take the items."""
        self._end(True)

    def release(self) -> None:
        """Leave the items in the queue."""
        self._end(False)


def joined(shapes: Sequence[Shape], in_tuple: bool | None = None) -> Shape:
    """The shape of a value of these arrays; by default one array alone is no tuple."""
    in_tuple = len(shapes) != 1 if in_tuple is None else in_tuple
    return Shape.tuple_of(shapes) if in_tuple else shapes[0]
