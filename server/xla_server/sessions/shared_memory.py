"""The memory that one session shares with its client, and values that pass through it."""

import threading
from collections.abc import Sequence

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
    XlaError,
)
from xla_contract.linear_memory import read_linear_memory, write_linear_memory
from xla_contract.shape import UNBOUNDED, Shape
from xla_server.runtime.blocks import block_size
from xla_server.sessions.arena import Arena
from xla_server.sessions.devices import DeviceHandle
from xla_server.sessions.free_list import MAX_PARTS
from xla_server.sessions.records import present
from xla_server.sessions.service import XlaService


class SharedMemory:
    """A session's part of shared memory: `of(service)`. Any thread may call any method.

    There is an arena as long as the client is connected to the socket for it.
    """

    def __init__(self, service: XlaService) -> None:
        self._service = service
        self._arena: Arena | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def connect(self) -> Arena:
        """A new arena for the client, in place of the one there was.

        Give it to `disconnect` in the end. Raises FailedPreconditionError when the session has
        ended, OSError where the system gives none.
        """
        arena = self._service.engine.arenas.acquire()
        with self._lock:
            refused = self._is_closed
            before, self._arena = (arena, self._arena) if refused else (self._arena, arena)
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
        self._service.engine.arenas.release(arena)

    def close(self) -> None:
        """Free the arena; there will be none any more."""
        with self._lock:
            self._is_closed = True
            arena, self._arena = self._arena, None
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
        first: XlaError | None = None
        for offset in offsets:
            try:
                arena.free(offset)
            except XlaError as error:
                first = first or error
        if first is not None:
            raise first

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
            self._service.data.reserving(checked.byte_size, f"an upload of {checked}") as place,
        ):
            # Padding counts as the value's, so the block is never too small for its elements.
            block = self._service.engine.blocks.take(block_size(checked.byte_size))
            literal = read_linear_memory(checked, memory, out=block.array(checked))
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
