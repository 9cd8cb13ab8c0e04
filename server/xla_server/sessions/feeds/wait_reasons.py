"""Reasons of waiting for a feed's queue, in sentences, which explain deadlocks."""

import dataclasses

from xla_contract.types.shape import Shape
from xla_server.sessions.feeds.queue_entries import QueueWaiter


@dataclasses.dataclass(frozen=True, slots=True)
class QueueFacts:
    """State of a queue at one moment.

    `items` and `byte_size` include items held for a stream, which `held_items` counts alone.
    `queued` is the number of arrays that are not taken, `first` the shape of the first of them.
    """

    name: str
    items: int
    byte_size: int
    held_items: int
    queued: int
    first: Shape | None
    is_lent: bool
    max_items: int
    max_bytes: int


def why_taking(queue: QueueFacts, taker: QueueWaiter, before: int) -> str:
    """Return the reason why a consumer waits, with so many before it."""
    text = f"{queue.name} {taker.user} waits for {taker.shape or 'an item'}; "
    if queue.is_lent or before:
        return f"{text}{before} before it in the queue"
    if not queue.queued:
        return f"{text}the queue is empty"
    return f"{text}{queue.queued} arrays are there, the first of them {queue.first}"


def why_putting(queue: QueueFacts, putter: QueueWaiter, _: int) -> str:
    """Return the reason why a producer waits."""
    held = f", {queue.held_items} of them sent and not acknowledged" if queue.held_items else ""
    first = f"; the first item of the queue is {queue.first}" if queue.queued else ""
    return (
        f"{queue.name} {putter.user} waits for room for {putter.shape}; the queue holds "
        f"{queue.items} of {queue.max_items} items{held} and {queue.byte_size} of "
        f"{queue.max_bytes} bytes{first}"
    )


def why_draining(queue: QueueFacts, drainer: QueueWaiter, _: int) -> str:
    """Return the reason why a queue is not empty yet."""
    return f"{drainer.user} waits until {queue.items} items are gone"
