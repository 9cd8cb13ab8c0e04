"""Division of a launch into calls, each of which executes one chunk of work items."""

import math

from xla_server.target.loop_tuning import Chunks


def chunk_of(items: int, work: int, prologue: int, chunks: Chunks) -> int:
    """Return the number of work items per call, for a launch of `items` work items.

    `work` is the time of a work item, `prologue` that of the code before a call's first work item,
    both in additions.
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
