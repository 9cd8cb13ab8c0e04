"""Progress of transfers: the type of its functions, and the reports for values in shared memory.

There `progress` is called in a thread beside the one that transfers. An exception of `progress`
ends the transfer.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from xla_contract.types.literal import Array, Literal
from xla_contract.wire.literals.linear_stream import LinearReader

Progress: TypeAlias = Callable[[int, int], object]
"""Called repeatedly with the number of bytes transferred so far, and of bytes in total."""

STEP_BYTES = 1 << 20
"""Bytes between two reports."""

_POLL_SECONDS = 0.005
_MARK_BYTES = 8
"""Interval at which the marks are checked, in seconds, and the size of a mark in bytes: large
enough that values equal marks by chance only."""


def write_in_steps(literal: Literal, memory: Array, progress: Progress) -> None:
    """Write an array into linear memory, uint8[byte size], as `write_linear_memory` does."""
    reader = LinearReader(literal)
    for start in range(0, reader.size, STEP_BYTES):
        stop = min(start + STEP_BYTES, reader.size)
        memory[start:stop] = np.frombuffer(reader.part(start, stop), np.uint8)
        if stop < reader.size:
            progress(stop, reader.size)


@contextlib.contextmanager
def watching(memory: Array, progress: Progress | None) -> Iterator[None]:
    """Report how far another thread has written `memory`, uint8[byte size], until the block ends.

    The end of each step is marked with random bytes; the step was written when they are gone. A
    value that happens to hold the same bytes is only reported later.
    """
    ends = range(STEP_BYTES, memory.size, STEP_BYTES)
    if progress is None or not ends:
        yield
        return
    marks = [np.frombuffer(os.urandom(_MARK_BYTES), np.uint8) for _ in ends]
    places = [memory[end - _MARK_BYTES : end] for end in ends]
    for place, mark in zip(places, marks, strict=True):
        place[:] = mark
    has_ended = threading.Event()
    failed: list[BaseException] = []

    def watch() -> None:
        written = 0
        while not has_ended.wait(_POLL_SECONDS):
            before = written
            while written < len(marks) and not np.array_equal(places[written], marks[written]):
                written += 1
            if written == before:
                continue
            try:
                progress(ends[written - 1], memory.size)
            except BaseException as error:  # It is raised again in the caller's thread.
                failed.append(error)
                return

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        has_ended.set()
        watcher.join()
    if failed:
        raise failed[0]
