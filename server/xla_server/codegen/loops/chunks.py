"""Division of a launch into calls: each does a chunk of work items."""

import math

PARALLEL_WORK = 1 << 16
"""Operations of a chunk: 2 to 3 us of vector instructions. To wake a thread takes about as long on
an idle machine, several times that in a virtual one, so a launch of fewer than two chunks is one
call (LOG, launches of one to two chunks)."""

ALIGNED_ITEMS = 64
"""Chunks of at least this many work items are multiples of it: a cache line of bytes or more."""

PROLOGUE_SHARE = 8
"""A chunk's work items cost at least this many times its prologue, so that the prologue, which each
chunk executes again, adds at most an eighth."""


def chunk_of(items: int, work: int, prologue: int = 0) -> int:
    """Return how many of the `items` work items of a launch one call of its kernel does.

    `work` are the operations of a work item, `prologue` those that each call does before its
    first.
    """
    work = max(1, work)
    chunk = max(1, PARALLEL_WORK // work, -(-PROLOGUE_SHARE * prologue // work))
    if items < 2 * chunk:
        return max(1, items)
    return chunk if chunk < ALIGNED_ITEMS else chunk // ALIGNED_ITEMS * ALIGNED_ITEMS


def calls_of(items: int, work: int, prologue: int) -> int:
    """Return the number of calls in a launch of `items` work items."""
    return math.ceil(items / chunk_of(items, work, prologue)) if items else 0
