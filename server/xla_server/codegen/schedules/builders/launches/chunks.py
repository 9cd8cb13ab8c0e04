"""Division of a launch into calls: each does a chunk of work items."""

import math

from xla_server.target.loop_tuning import Chunks


def chunk_of(items: int, work: int, prologue: int, chunks: Chunks) -> int:
    """Return how many of the `items` work items of a launch one call of its kernel does.

    `work` is the time of a work item in additions, `prologue` that of each call before its first.
    """
    work = max(1, work)
    chunk = max(1, chunks.parallel_work // work, -(-chunks.prologue_share * prologue // work))
    if items < 2 * chunk:
        return max(1, items)
    return (
        chunk
        if chunk < chunks.aligned_items
        else chunk // chunks.aligned_items * chunks.aligned_items
    )


def calls_of(items: int, work: int, prologue: int, chunks: Chunks) -> int:
    """Return the number of calls in a launch of `items` work items."""
    return math.ceil(items / chunk_of(items, work, prologue, chunks)) if items else 0
