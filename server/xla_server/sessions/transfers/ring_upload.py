"""Uploads through a ring in shared memory: each piece is copied out while the next is written.

The allocation has slots for some pieces, and a channel: a socket that carries slot numbers. The
client sends the number of a slot that has a piece, and gets it back when the slot may be written
again (xla_extension.proto has the rules). On every processor, bytes of a socket arrive after
earlier writes to memory, wake the waiting side, and end with the client; numbers in the memory
would not.
"""

import collections
import contextlib
import dataclasses
import socket
import threading
from collections.abc import Callable, Iterator

import numpy as np

from xla_contract.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_contract.types.literal import Array
from xla_host.socket_polling import recv_spinning
from xla_server.execution.cancellation import Cancellation

MAX_CHANNELS = 16
"""Largest number of channels of one arena."""

SILENCE_SECONDS = 10.0
"""Timeout of a piece, in seconds."""


@dataclasses.dataclass(slots=True, eq=False)
class _Channel:
    """A connection for one call at a time; closed once it has ended and no call uses it."""

    connection: socket.socket
    is_used: bool = False
    has_ended: bool = False

    def end(self) -> None:
        """End the channel; a call that uses it sees that. Under the lock of its table."""
        self.has_ended = True
        if self.is_used:
            shutdown_socket(self.connection)
        else:
            self.connection.close()


class RingTransfers:
    """The channels of one arena, by the offsets of their allocations. Thread-safe."""

    def __init__(self) -> None:
        self._channels: dict[int, _Channel] = {}
        self._is_closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._channels)

    def add(self, offset: int, connection: socket.socket) -> None:
        """Make a connection the channel of an allocation, instead of an earlier one.

        Raises ResourceExhaustedError when there are too many, FailedPreconditionError once closed.
        """
        with self._lock:
            if self._is_closed:
                raise FailedPreconditionError(
                    "a session must be connected to its shared memory, got one that is not"
                )
            before = self._channels.pop(offset, None)
            if len(self._channels) >= MAX_CHANNELS:
                raise ResourceExhaustedError(
                    f"an arena may have {MAX_CHANNELS} channels of allocations, got one more",
                    hint="Free allocations that are not used.",
                )
            self._channels[offset] = _Channel(connection)
            if before is not None:
                before.end()

    def end(self, offset: int) -> None:
        """End the channel of an allocation, if there is one."""
        with self._lock:
            channel = self._channels.pop(offset, None)
            if channel is not None:
                channel.end()

    def close(self) -> None:
        """End all channels and refuse new ones."""
        with self._lock:
            self._is_closed = True
            for channel in self._channels.values():
                channel.end()
            self._channels.clear()

    @contextlib.contextmanager
    def using(self, offset: int) -> Iterator[socket.socket]:
        """The channel of an allocation for one call; it is ended if the block raises.

        Raises FailedPreconditionError if there is none, or another call has it.
        """
        with self._lock:
            channel = self._channels.get(offset)
            if channel is None or channel.is_used:
                raise FailedPreconditionError(
                    "an allocation must have a channel that no call uses, got offset "
                    f"{offset} without",
                    hint="Connect to the socket with the session's token and the offset.",
                )
            channel.is_used = True
        try:
            yield channel.connection
        except BaseException:  # The two sides may disagree on what the next bytes mean.
            with self._lock:
                if self._channels.get(offset) is channel:
                    del self._channels[offset]
                channel.end()
            raise
        finally:
            with self._lock:
                channel.is_used = False
                if channel.has_ended:
                    channel.connection.close()


def receive_ring(
    channel: socket.socket,
    ring: Array,
    target: Array,
    piece_bytes: int,
    cancellation: Cancellation,
    reserve: Callable[[int], object],
) -> None:
    """Copy a value out of a ring, uint8[slots * piece_bytes], into `target`, uint8[value's size].

    `reserve` is called, before a piece is copied, with the bytes of the value up to its end. Raises
    what that raises, InvalidArgumentError for a slot that does not exist, AbortedError when the
    channel ends or the client is silent, and the error of `cancellation`.
    """
    count = ring.size // piece_bytes
    slots: collections.deque[int] = collections.deque()
    channel.settimeout(SILENCE_SECONDS)
    with cancellation.calling(lambda: shutdown_socket(channel)):
        for start in range(0, target.size, piece_bytes):
            if not slots:
                slots += _receive_slots(channel, count, cancellation)
            slot = slots.popleft()
            if slot >= count:
                raise InvalidArgumentError(f"a piece must be in one of {count} slots, got {slot}")
            piece = target[start : start + piece_bytes]
            reserve(start + piece.size)
            np.copyto(piece, ring[slot * piece_bytes :][: piece.size])
            with contextlib.suppress(OSError):  # A client that has gone sends no other piece.
                channel.send(bytes((slot,)))


def shutdown_socket(channel: socket.socket) -> None:
    """Shut down a channel for both sides, from any thread; a thread that waits for it wakes up."""
    with contextlib.suppress(OSError):  # It has ended.
        channel.shutdown(socket.SHUT_RDWR)


def _receive_slots(channel: socket.socket, max_slots: int, cancellation: Cancellation) -> bytes:
    """Wait for pieces; return the numbers of their slots."""
    try:
        slots = recv_spinning(channel, max_slots)
    except TimeoutError as error:
        # Not DEADLINE_EXCEEDED: no deadline of the client has passed, and it can upload in another
        # way.
        raise AbortedError(f"a piece must come within {SILENCE_SECONDS:g} s, got none") from error
    except OSError:
        slots = b""
    if not slots:
        cancellation.check()
        raise AbortedError("a channel must last until all pieces have come, got one that ended")
    return slots
