"""The arena that one session shares with its client, and transfers of values through it."""

import contextlib
import dataclasses
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
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.linear_memory import (
    is_row_major,
    literal_in_memory,
    read_linear_memory,
    write_linear_memory,
)
from xla_server.backends.platform import Backend
from xla_server.execution.cancellation import Cancellation
from xla_server.runtime.blocks import BlockPool, block_size
from xla_server.sessions.feeds.device_table import DeviceHandle, DeviceTable
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.transfers.arena import Arena
from xla_server.sessions.transfers.arena_pool import ArenaPool
from xla_server.sessions.transfers.free_list import MAX_PARTS, PAGE
from xla_server.sessions.transfers.ring_upload import RingTransfers, receive_ring
from xla_server.sessions.transfers.upload import require_layout
from xla_server.sessions.values.handles import require_handle
from xla_server.sessions.values.value_table import ValueTable, checked_layout

MIN_SLOTS, MAX_SLOTS = 2, 64
"""Slots of a ring that a value passes through in pieces."""


@dataclasses.dataclass(eq=False)
class SessionArena:
    """A session's arena of shared memory.

    Thread-safe. The arena lasts as long as the client's connection to the socket for it.
    """

    _arenas: ArenaPool
    _values: ValueTable
    _devices: DeviceTable
    _backend: Backend
    _blocks: BlockPool
    _caller: Caller

    def __post_init__(self) -> None:
        self._arena: Arena | None = None
        self._channels = RingTransfers()
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def is_connected(self) -> bool:
        """True if there is an arena."""
        return self._arena is not None

    def connect(self) -> Arena:
        """Return a new arena for the client, which replaces an earlier one.

        Pass it to `disconnect` in the end. Raises FailedPreconditionError if the session has ended,
        OSError if the system cannot make one.
        """
        arena = self._arenas.acquire(self._caller)
        with self._lock:
            refused = self._is_closed
            before, self._arena = (arena, self._arena) if refused else (self._arena, arena)
            channels, self._channels = self._channels, RingTransfers()
        channels.close()
        if before is not None:
            self._arenas.release(before)
        if refused:
            raise FailedPreconditionError("a session must be open to be used, got one that ended")
        return arena

    def disconnect(self, arena: Arena) -> None:
        """Free an arena; no effect on one that replaced it."""
        with self._lock:
            if self._arena is arena:
                self._arena = None
                self._channels.close()
        self._arenas.release(arena)

    def close(self) -> None:
        """Free the arena and refuse new ones."""
        with self._lock:
            self._is_closed = True
            arena, self._arena = self._arena, None
            self._channels.close()
        if arena is not None:
            self._arenas.release(arena)

    def allocate(self, byte_size: int) -> tuple[int, int]:
        """The offset and size of a new part of the arena; raises as `Arena.allocate` does."""
        return self._connected().allocate(byte_size)

    def free(self, offsets: Sequence[int]) -> None:
        """Free parts; all are tried, and the first error is raised.

        Raises InvalidArgumentError for more offsets than an arena can have parts.
        """
        if len(offsets) > MAX_PARTS:
            raise InvalidArgumentError(
                f"shared memory has at most {MAX_PARTS} allocations, got {len(offsets)} offsets"
            )
        arena = self._connected()
        channels = self._channels
        first: XlaError | None = None
        for offset in offsets:
            try:
                arena.free(offset)
            except XlaError as error:
                first = first or error
            channels.end(offset)
        if first is not None:
            raise first

    def add_channel(self, offset: int, connection: socket.socket) -> None:
        """Make a connection the channel of an allocation; closed at the end or if this raises.

        Raises NotFoundError if no allocation begins at `offset`, and as `RingTransfers.add` does.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(connection.close)
            arena, channels = self._connected(), self._channels
            channels.add(offset, connection)
            undo.pop_all()
        try:
            with arena.using(offset, 1):  # After adding, as `free` ends channels that it finds.
                pass
        except XlaError:
            channels.end(offset)
            raise

    def upload(self, offset: int, shape: Shape | None, device: DeviceHandle | None) -> int:
        """Copy the array in an allocation to a device, under a new handle.

        It is copied before it is checked. Raises InvalidArgumentError for a shape that is no array
        with a layout and static sizes or that does not fit into the allocation, and for bytes that
        are no values of its type. Raises NotFoundError if no allocation begins at `offset`, and
        ResourceExhaustedError, before memory is allocated, if there is too little.
        """
        arena = self._connected()
        target = self._devices.resolve(device)
        checked = _checked(shape)
        with (
            arena.using(offset, checked.byte_size) as memory,
            self._values.reserve(checked.byte_size, f"an upload of {checked}") as reservation,
        ):
            # Padding counts as the value's, so the block is never too small for its elements.
            block = self._blocks.allocate(block_size(checked.byte_size))
            literal = read_linear_memory(checked, memory, out=block.array(checked))
            return reservation.keep(self._backend.to_device(literal, target))

    def upload_pieces(
        self,
        offset: int,
        piece_bytes: int,
        shape: Shape | None,
        device: DeviceHandle | None,
        cancellation: Cancellation,
    ) -> int:
        """Store an array that arrives through an allocation in pieces, under a new handle.

        Raises as `upload` does, InvalidArgumentError for a shape that is not row-major and pieces
        that are no pages or too many or too few slots, FailedPreconditionError without a channel,
        and as `receive_ring` does. An error ends the channel.
        """
        arena = self._connected()
        with self._channels.using(offset) as channel:
            target = self._devices.resolve(device)
            checked = _checked(shape)
            if not is_row_major(checked):
                raise InvalidArgumentError(
                    f"what comes in pieces must be row-major without padding, got {checked}"
                )
            ring_bytes = _ring_bytes(arena.size(offset), piece_bytes)
            purpose = f"an upload of {checked}"
            with (
                arena.using(offset, ring_bytes) as ring,
                self._values.reserve_later(checked.byte_size, purpose) as reservation,
            ):
                block = self._blocks.allocate(block_size(checked.byte_size))
                memory = np.asarray(block)[: checked.byte_size]
                with releasing_slot():  # The client may take long.
                    receive_ring(
                        channel,
                        ring,
                        memory,
                        piece_bytes,
                        cancellation,
                        lambda byte_size: reservation.grow(byte_size, purpose),
                    )
                literal = literal_in_memory(checked, memory)
                return reservation.keep(self._backend.to_device(literal, target))

    def download(
        self, handle: int | None, offset: int, shape: Shape | None
    ) -> tuple[Shape, tuple[int, ...]]:
        """Write a value into an allocation, in the layout of `shape` or else row-major.

        Returns the shape written, and the sizes of a value with dynamic dimensions. Raises
        UnimplementedError for a value that is no array, InvalidArgumentError for a `shape` that
        does not fit the value and a value that does not fit into the allocation, NotFoundError if
        no allocation begins at `offset`.
        """
        arena = self._connected()
        handle = require_handle(handle)
        buffer = self._values.get(handle)
        if not buffer.shape.is_array:
            raise UnimplementedError(
                f"only arrays pass through shared memory, got {buffer.shape}",
                hint="Take tuples apart with DeconstructTuple.",
            )
        rows = (buffer.shape.without_layout() if shape is None else shape).with_default_layout()
        wanted = checked_layout(rows, buffer.shape)
        with arena.using(offset, wanted.byte_size) as memory:
            literal = buffer.to_literal(wanted)
            write_linear_memory(literal, memory)
        self._values.note_fetched([handle])
        return literal.shape, literal.dynamic_sizes

    def _connected(self) -> Arena:
        arena = self._arena
        if arena is None:
            raise FailedPreconditionError(
                "a session must be connected to its shared memory, got one that is not",
                hint="Connect to the socket that OpenSession names, or transfer in chunks.",
            )
        return arena


def _checked(shape: Shape | None) -> Shape:
    if shape is None or not shape.is_array:
        raise InvalidArgumentError(
            f"shape must be that of an array, got {'none' if shape is None else shape}"
        )
    return require_layout(shape)


def _ring_bytes(size: int, piece_bytes: int) -> int:
    """Bytes of the slots in an allocation of `size` bytes."""
    slots = size // piece_bytes if piece_bytes > 0 else 0
    if piece_bytes % PAGE or not MIN_SLOTS <= slots <= MAX_SLOTS:
        raise InvalidArgumentError(
            f"an allocation must have {MIN_SLOTS} to {MAX_SLOTS} slots for pieces of a multiple "
            f"of {PAGE} bytes, got {slots} slots of {piece_bytes} bytes in {size}"
        )
    return slots * piece_bytes
