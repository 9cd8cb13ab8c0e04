"""Values that pass through an allocation in pieces, each copied out while the next is written.

The allocation has places for some pieces; a line, a socket that goes with it, tells of them: the
client sends the number of a place that a piece lies in, and gets it back when it may be written
again. (xla_extension.proto has the rules.) Bytes of a socket, not numbers in the memory: they come
after what was written before them on every processor, wake who waits, and end with the client.
"""

import collections
import contextlib
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
from xla_contract.piece_line import recv_spinning
from xla_contract.types.literal import Array
from xla_server.evaluator.cancellation import Cancellation

MAX_LINES = 16
"""Lines of one arena."""

SILENCE_SECONDS = 10.0
"""How long a client may take for a piece."""


class _Line:
    """A connection that one call uses at a time. It is closed when it has ended and is not used."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._is_used = False
        self._has_ended = False
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Take the line for a call; False where there is nothing to take."""
        with self._lock:
            if self._is_used or self._has_ended:
                return False
            self._is_used = True
            return True

    def leave(self) -> None:
        """Give the line back after a call."""
        with self._lock:
            self._is_used = False
            if self._has_ended:
                self.connection.close()

    def end(self) -> None:
        """End the line; a call that uses it sees that."""
        with self._lock:
            self._has_ended = True
            if self._is_used:
                shut(self.connection)
            else:
                self.connection.close()


class PieceLines:
    """The lines of one arena, by the offsets of their allocations.

    Any thread may call any method.
    """

    def __init__(self) -> None:
        self._lines: dict[int, _Line] = {}
        self._is_closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, offset: int, connection: socket.socket) -> None:
        """Make a connection the line of an allocation, in place of the one there was.

        Raises ResourceExhaustedError when there are too many, FailedPreconditionError once closed.
        """
        with self._lock:
            if self._is_closed:
                raise FailedPreconditionError(
                    "a session must be connected to its shared memory, got one that is not"
                )
            before = self._lines.pop(offset, None)
            if len(self._lines) >= MAX_LINES:
                raise ResourceExhaustedError(
                    f"an arena may have {MAX_LINES} lines of allocations, got one more",
                    hint="Free allocations that are not used.",
                )
            self._lines[offset] = _Line(connection)
        if before is not None:
            before.end()

    def end(self, offset: int) -> None:
        """End the line of an allocation, if there is one."""
        with self._lock:
            line = self._lines.pop(offset, None)
        if line is not None:
            line.end()

    def close(self) -> None:
        """End all lines; there will be none any more."""
        with self._lock:
            self._is_closed = True
            lines, self._lines = self._lines, {}
        for line in lines.values():
            line.end()

    @contextlib.contextmanager
    def using(self, offset: int) -> Iterator[socket.socket]:
        """The line of an allocation for one call, which ends it when the block raises.

        Raises FailedPreconditionError where there is none, or another call has it.
        """
        with self._lock:
            line = self._lines.get(offset)
        if line is None or not line.begin():
            raise FailedPreconditionError(
                f"an allocation must have a line that no call uses, got offset {offset} without",
                hint="Connect to the socket with the session's token and the offset.",
            )
        try:
            yield line.connection
        except BaseException:  # Whatever it is: what the client sends over it means nothing now.
            with self._lock:
                if self._lines.get(offset) is line:
                    del self._lines[offset]
            line.end()
            raise
        finally:
            line.leave()


def receive_pieces(
    line: socket.socket,
    ring: Array,
    target: Array,
    piece_bytes: int,
    cancellation: Cancellation,
    reserve: Callable[[int], object],
) -> None:
    """Copy a value out of a ring, uint8[places * piece_bytes], into `target`, uint8[value's size].

    `reserve` is called, before a piece is copied, with the bytes of the value up to its end. Raises
    what that raises, InvalidArgumentError for a place that is not there, AbortedError when the line
    ends or the client is silent, and the error of `cancellation`.
    """
    count = ring.size // piece_bytes
    places: collections.deque[int] = collections.deque()
    line.settimeout(SILENCE_SECONDS)
    forget = cancellation.add_callback(lambda: shut(line))
    try:
        for start in range(0, target.size, piece_bytes):
            if not places:
                places += _told(line, count, cancellation)
            place = places.popleft()
            if place >= count:
                raise InvalidArgumentError(
                    f"a piece must lie in one of {count} places, got {place}"
                )
            piece = target[start : start + piece_bytes]
            reserve(start + piece.size)
            np.copyto(piece, ring[place * piece_bytes :][: piece.size])
            _tell(line, place)
    finally:
        forget()


def shut(line: socket.socket) -> None:
    """End a line for both sides, from any thread; who waits for it goes on."""
    with contextlib.suppress(OSError):  # It has ended.
        line.shutdown(socket.SHUT_RDWR)


def _told(line: socket.socket, most: int, cancellation: Cancellation) -> bytes:
    """Wait for pieces; gives the places they lie in."""
    try:
        places = recv_spinning(line, most)
    except TimeoutError as error:
        # No deadline of the client's, who may have been stopped: it can go another way.
        raise AbortedError(f"a piece must come within {SILENCE_SECONDS:g} s, got none") from error
    except OSError:
        places = b""
    if not places:
        cancellation.check()
        raise AbortedError("a line must last until all pieces have come, got one that ended")
    return places


def _tell(line: socket.socket, place: int) -> None:
    """Tell of a place that is free; who has gone is met at the next piece, if there is one."""
    with contextlib.suppress(OSError):
        line.send(bytes((place,)))
