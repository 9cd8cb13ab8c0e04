"""Parallel copies: several copies that all read before any of them writes."""

import collections
from collections.abc import Mapping

from xla_server.buffers.code import CopyThunk, Value


def parallel_copies(sources: Mapping[Value, Value]) -> list[CopyThunk]:
    """Return copies in an order that has the effect of all at once; `sources` are by target.

    A value is overwritten after it was copied to others. One of each cycle is saved for that.
    """
    copies: list[CopyThunk] = []
    waiting = {target: source for target, source in sources.items() if target is not source}
    reads = collections.Counter(waiting.values())
    free = collections.deque(target for target in waiting if not reads[target])
    while waiting:
        if not free:
            target = next(iter(waiting))
            saved = Value(target.shape, f"{target.name}.saved")
            copies.append(CopyThunk(saved, target))
            waiting = {to: saved if it is target else it for to, it in waiting.items()}
            free.append(target)
        target = free.popleft()
        source = waiting.pop(target)
        copies.append(CopyThunk(target, source))
        reads[source] -= 1
        if source in waiting and not reads[source]:
            free.append(source)
    return copies
