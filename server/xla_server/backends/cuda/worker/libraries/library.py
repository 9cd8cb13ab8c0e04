"""The interface of libraries, and the memory and handles that they have.

A thread has made the device current before it calls a library.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class LibraryError(Exception):
    """A library refused a plan; the message has the plan and what the library said."""


class Memory(Protocol):
    """Memory of the device in the order of a stream, as the driver has it."""

    def allocate(self, byte_size: int, stream: int) -> int:
        """Return memory for what follows in the stream. Raises OutOfDeviceMemoryError."""

    def free(self, address: int, stream: int) -> None:
        """Give memory back once what the stream was given before is done."""


class Prepared(Protocol):
    """A plan with what the library needs to compute it."""

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Give the work to a stream. Any thread may call it."""


@contextlib.contextmanager
def borrowed(memory: Memory, byte_size: int, stream: int) -> Iterator[int]:
    """Give memory for what the stream is given meanwhile: 0 where none is asked for."""
    if not byte_size:
        yield 0
        return
    address = memory.allocate(byte_size, stream)
    try:
        yield address
    finally:
        memory.free(address, stream)


class Handles:
    """A handle of a library for each stream: what it keeps on the device is for one at a time.

    There are as many streams as connections of the worker.
    """

    def __init__(self, create: Callable[[int], Any]) -> None:
        self._create, self._lock = create, threading.Lock()
        self._of_streams: dict[int, Any] = {}

    def of(self, stream: int) -> Any:
        """Return the handle of a stream."""
        with self._lock:
            if stream not in self._of_streams:
                self._of_streams[stream] = self._create(stream)
            return self._of_streams[stream]
