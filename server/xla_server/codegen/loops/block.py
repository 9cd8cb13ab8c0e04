"""Blocks of kernel source: the lines at one loop level, and how often they are executed."""

import math

PARALLEL_WORK = 1 << 16
"""Smallest chunk worth a thread of its own, in operations: 16 times the cost of waking one."""

ALIGNED_ITEMS = 64
"""Chunks of at least this many work items are multiples of it: a cache line of bytes or more."""

PROLOGUE_SHARE = 8
"""A chunk's work items cost at least this many times its prologue, so that the prologue, which each
chunk executes again, adds at most an eighth."""


class Block:
    """The body of a loop while it is written.

    `iterations` is the mean number of times it is executed for each execution of `inside`, the
    block around it.
    """

    def __init__(self, depth: int, inside: "Block | None", iterations: float = 1) -> None:
        self.depth = depth
        self.inside = inside
        self.iterations = iterations
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Append a line at the block's depth."""
        self.lines.append("    " * self.depth + line)

    @property
    def executions(self) -> float:
        """How often one launch of the kernel executes the block."""
        total, block = 1.0, self
        while True:
            total *= block.iterations
            if block.inside is None:
                return total
            block = block.inside


def chunk_of(work: int, prologue: int = 0) -> int:
    """Return how many work items one call of a kernel does.

    `work` are the operations of a work item, `prologue` those that each call does before its
    first.
    """
    work = max(1, work)
    chunk = max(1, PARALLEL_WORK // work, -(-PROLOGUE_SHARE * prologue // work))
    return chunk if chunk < ALIGNED_ITEMS else chunk // ALIGNED_ITEMS * ALIGNED_ITEMS


def calls_of(trips: int, work: int, prologue: int) -> int:
    """Return the number of calls in a launch of `trips` work items."""
    return math.ceil(trips / chunk_of(work, prologue)) if trips else 0
