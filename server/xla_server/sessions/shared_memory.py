"""The memory that one session shares with its client, and values that pass through it."""

import contextlib
import socket
import threading
from collections.abc import Sequence

import numpy as np

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
    XlaError,
)
from xla_contract.types.shape import UNBOUNDED, Shape
from xla_contract.wire.literals.linear_memory import (
    is_row_major,
    literal_in_memory,
    read_linear_memory,
    write_linear_memory,
)
from xla_server.evaluator.cancellation import Cancellation
from xla_server.runtime.blocks import block_size
from xla_server.sessions.arena import Arena
from xla_server.sessions.devices import DeviceHandle
from xla_server.sessions.free_list import MAX_PARTS, PAGE
from xla_server.sessions.lending import lent_place
from xla_server.sessions.piece_lines import PieceLines, receive_pieces
from xla_server.sessions.records import present
from xla_server.sessions.service import XlaService

MIN_PLACES, MAX_PLACES = 2, 64
"""Places of a ring that a value passes through in pieces."""


class SharedMemory:
    """A session's part of shared memory: `of(service)`. Any thread may call any method.

    There is an arena as long as the client is connected to the socket for it.
    """

    def __init__(self, service: XlaService) -> None:
        self._service = service
        self._arena: Arena | None = None
        self._lines = PieceLines()
        self._is_closed = False
        self._lock = threading.Lock()

    def connect(self) -> Arena:
        """A new arena for the client, in place of the one there was.

        Give it to `disconnect` in the end. Raises FailedPreconditionError when the session has
        ended, OSError where the system gives none.
        """
        arena = self._service.engine.arenas.acquire(self._service.caller)
        with self._lock:
            refused = self._is_closed
            before, self._arena = (arena, self._arena) if refused else (self._arena, arena)
            lines, self._lines = self._lines, PieceLines()
        lines.close()
        if before is not None:
            self._service.engine.arenas.release(before)
        if refused:
            raise FailedPreconditionError("a session must be open to be used, got one that ended")
        return arena

    def disconnect(self, arena: Arena) -> None:
        """Free an arena; harmless when another one took its place."""
        with self._lock:
            if self._arena is arena:
                self._arena = None
                self._lines.close()
        self._service.engine.arenas.release(arena)

    def close(self) -> None:
        """Free the arena; there will be none any more."""
        with self._lock:
            self._is_closed = True
            arena, self._arena = self._arena, None
            self._lines.close()
        if arena is not None:
            self._service.engine.arenas.release(arena)

    def allocate(self, byte_size: int) -> tuple[int, int]:
        """The offset and size of a new part of the arena; raises as `Arena.allocate` does."""
        return self._connected().allocate(byte_size)

    def free(self, offsets: Sequence[int]) -> None:
        """Give parts back; all are tried, and the first error is raised.

        Raises InvalidArgumentError for more than there can be.
        """
        if len(offsets) > MAX_PARTS:
            raise InvalidArgumentError(
                f"shared memory has at most {MAX_PARTS} allocations, got {len(offsets)} offsets"
            )
        arena = self._connected()
        lines = self._lines
        first: XlaError | None = None
        for offset in offsets:
            try:
                arena.free(offset)
            except XlaError as error:
                first = first or error
            lines.end(offset)
        if first is not None:
            raise first

    def add_line(self, offset: int, connection: socket.socket) -> None:
        """Make a connection the line of an allocation, closed in the end and when this raises.

        Raises NotFoundError if no allocation begins at `offset`, and as `PieceLines.add` does.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(connection.close)
            arena, lines = self._connected(), self._lines
            lines.add(offset, connection)
            undo.pop_all()
        try:
            with arena.using(offset, 1):  # After it was added: who frees it ends it.
                pass
        except XlaError:
            lines.end(offset)
            raise

    def upload(self, offset: int, shape: Shape | None, device: DeviceHandle | None) -> int:
        """Keep the array that lies in an allocation on a device, under a new handle.

        It is copied first and looked at then. Raises InvalidArgumentError for a shape that is no
        array with a layout and static sizes, that does not fit into the allocation, and for bytes
        that are no values of it; NotFoundError if no allocation begins at `offset`;
        ResourceExhaustedError, before anything is allocated, when there is no room for it.
        """
        arena = self._connected()
        target = self._service.devices.resolve(device)
        checked = _checked(shape)
        with (
            arena.using(offset, checked.byte_size) as memory,
            self._service.data.reserve(checked.byte_size, f"an upload of {checked}") as place,
        ):
            # Padding counts as the value's, so the block is never too small for its elements.
            block = self._service.engine.blocks.take(block_size(checked.byte_size))
            literal = read_linear_memory(checked, memory, out=block.array(checked))
            return place.keep(self._service.engine.backend.to_device(literal, target))

    def upload_pieces(
        self,
        offset: int,
        piece_bytes: int,
        shape: Shape | None,
        device: DeviceHandle | None,
        cancellation: Cancellation,
    ) -> int:
        """Keep an array that comes through an allocation in pieces, under a new handle.

        Raises as `upload` does, InvalidArgumentError for a shape that is not row-major and pieces
        that are no pages or too many or too few places, FailedPreconditionError without a line, and
        as `receive_pieces` does. An error ends the line.
        """
        arena = self._connected()
        with self._lines.using(offset) as line:
            target = self._service.devices.resolve(device)
            checked = _checked(shape)
            if not is_row_major(checked):
                raise InvalidArgumentError(
                    f"what comes in pieces must be row-major without padding, got {checked}"
                )
            ring_bytes = _ring_bytes(arena.size(offset), piece_bytes)
            data, spared = self._service.data, self._service.limits.spared_device_bytes
            purpose = f"an upload of {checked}"
            with (
                arena.using(offset, ring_bytes) as ring,
                data.reserve_later(checked.byte_size, purpose, spared=spared) as place,
            ):
                block = self._service.engine.blocks.take(block_size(checked.byte_size))
                memory = np.asarray(block)[: checked.byte_size]
                with lent_place():  # The client may take its time.
                    receive_pieces(
                        line,
                        ring,
                        memory,
                        piece_bytes,
                        cancellation,
                        lambda byte_size: place.grow(byte_size, purpose, spared=spared),
                    )
                literal = literal_in_memory(checked, memory)
                return place.keep(self._service.engine.backend.to_device(literal, target))

    def download(
        self, handle: int | None, offset: int, shape: Shape | None
    ) -> tuple[Shape, tuple[int, ...]]:
        """Write a value into an allocation, laid out as `shape` or else row by row.

        Gives the shape written and the sizes of a value with dynamic dimensions. Raises
        UnimplementedError for what is no array, InvalidArgumentError for a `shape` that does not
        fit the value and a value that does not fit into the allocation, NotFoundError if no
        allocation begins at `offset`.
        """
        arena = self._connected()
        buffer = self._service.data.get(present(handle))
        if not buffer.shape.is_array:
            raise UnimplementedError(
                f"only arrays pass through shared memory, got {buffer.shape}",
                hint="Take tuples apart with DeconstructTuple.",
            )
        wanted = buffer.shape.without_layout() if shape is None else shape
        if not wanted.compatible(buffer.shape):
            raise InvalidArgumentError(
                f"shape_with_layout must be compatible with the value, got {wanted} for "
                f"{buffer.shape}"
            )
        wanted = wanted.with_default_layout()
        with arena.using(offset, wanted.byte_size) as memory:
            literal = buffer.to_literal(wanted)
            write_linear_memory(literal, memory)
        return literal.shape, literal.dynamic_sizes

    def _connected(self) -> Arena:
        arena = self._arena
        if arena is None:
            raise FailedPreconditionError(
                "a session must be connected to its shared memory, got one that is not",
                hint="Connect to the socket that OpenSession names, or transfer in chunks.",
            )
        return arena


def of(service: XlaService) -> SharedMemory:
    """The shared memory of a session."""
    return service.part(SharedMemory, SharedMemory)


def _checked(shape: Shape | None) -> Shape:
    if shape is None or not shape.is_array:
        raise InvalidArgumentError(
            f"shape must be that of an array, got {'none' if shape is None else shape}"
        )
    if shape.layout is None:
        raise InvalidArgumentError(f"shape must say its layout, got {shape} without")
    if not shape.is_static or UNBOUNDED in shape.dimensions:
        raise InvalidArgumentError(f"shape must have static sizes, got {shape}")
    return shape


def _ring_bytes(size: int, piece_bytes: int) -> int:
    """Bytes of the places in an allocation of `size` bytes."""
    places = size // piece_bytes if piece_bytes > 0 else 0
    if piece_bytes % PAGE or not MIN_PLACES <= places <= MAX_PLACES:
        raise InvalidArgumentError(
            f"an allocation must have {MIN_PLACES} to {MAX_PLACES} places for pieces of a multiple "
            f"of {PAGE} bytes, got {places} places of {piece_bytes} bytes in {size}"
        )
    return places * piece_bytes
