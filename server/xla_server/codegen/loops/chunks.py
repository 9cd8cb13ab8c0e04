"""Division of a launch into calls: each does a chunk of work items."""

import math

PARALLEL_WORK = 1 << 16
"""Smallest chunk worth a thread of its own, in operations: 16 times the cost of waking one."""

ALIGNED_ITEMS = 64
"""Chunks of at least this many work items are multiples of it: a cache line of bytes or more."""

PROLOGUE_SHARE = 8
"""A chunk's work items cost at least this many times its prologue, so that the prologue, which each
chunk executes again, adds at most an eighth."""


def chunk_of(work: int, prologue: int = 0) -> int:
    """Return how many work items one call of a kernel does.

    `work` are the operations of a work item, `prologue` those that each call does before its
    first.
    """
    work = max(1, work)
    chunk = max(1, PARALLEL_WORK // work, -(-PROLOGUE_SHARE * prologue // work))
    return chunk if chunk < ALIGNED_ITEMS else chunk // ALIGNED_ITEMS * ALIGNED_ITEMS


def calls_of(items: int, work: int, prologue: int) -> int:
    """Return the number of calls in a launch of `items` work items."""
    return math.ceil(items / chunk_of(work, prologue)) if items else 0
