"""The values that clients keep on the devices, and the memory they take."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from xla_server.backends.backend import Buffer
from xla_server.sessions.handles import HandleFactory, HandleKind, HandleTable


class Reservation:
    """Bytes set aside for values about to be made."""

    def __init__(self, table: "DataTable", byte_size: int) -> None:
        self._table = table
        self._byte_size = byte_size

    def keep(self, buffer: Buffer) -> int:
        """Keep a value under a new handle, in place of the bytes set aside."""
        byte_size, self._byte_size = self._byte_size, 0
        return self._table._keep(buffer, byte_size)

    def release(self) -> None:
        """Give back the bytes, if no value took their place."""
        byte_size, self._byte_size = self._byte_size, 0
        self._table._give_back(byte_size)


@dataclasses.dataclass(slots=True)
class _Held:
    """A leaf buffer and how many kept values it is part of."""

    leaf: Buffer
    count: int = 0


class DataTable:
    """Handle -> value, with the bytes of all distinct arrays counted once against a limit.

    The elements of a tuple are shared, not copied, by the handles DeconstructTuple gives; their
    bytes are freed with the last handle.
    """

    def __init__(self, handles: HandleFactory, *, max_bytes: int, max_handles: int) -> None:
        self.max_bytes = max_bytes
        self._buffers: HandleTable[Buffer] = HandleTable(handles, HandleKind.DATA, max_handles)
        self._held: dict[int, _Held] = {}
        self._used = 0
        self._reserved = 0
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Bytes of the values kept, each distinct array once."""
        return self._used

    def __len__(self) -> int:
        return len(self._buffers)

    @contextlib.contextmanager
    def reserving(self, byte_size: int, purpose: object) -> Iterator[Reservation]:
        """Set bytes aside before anything is allocated.

        Raises ResourceExhaustedError, with str(purpose), the limit and the use, when there is no
        room. What was not kept is given back at the end.
        """
        with self._lock:
            use = self._used + self._reserved
            if use + byte_size > self.max_bytes:
                raise ResourceExhaustedError(
                    f"values may take {self.max_bytes} bytes on the devices, got {byte_size} "
                    f"bytes more for {purpose} with {use} in use",
                    hint="Unregister values that are no longer needed, or raise max_device_bytes.",
                )
            self._reserved += byte_size
        reservation = Reservation(self, byte_size)
        try:
            yield reservation
        finally:
            reservation.release()

    def get(self, handle: int) -> Buffer:
        """The value; InvalidArgumentError when it was freed, NotFoundError when there never was."""
        return self._buffers.get(handle)

    def deconstruct(self, handle: int) -> list[int]:
        """A new handle for each element of a tuple, which stays valid.

        Raises InvalidArgumentError for a value that is no tuple and UnimplementedError for a
        tuple that holds tuples.
        """
        buffer = self._buffers.get(handle)
        if not buffer.shape.is_tuple:
            raise InvalidArgumentError(f"the value must be a tuple, got {buffer.shape}")
        if any(part.is_tuple for part in buffer.shape.tuple_shapes):
            raise UnimplementedError(
                f"only tuples without tuples inside are taken apart, got {buffer.shape}"
            )
        elements = list(buffer.elements)
        handles = self._buffers.add_all(elements)
        with self._lock:
            for element in elements:
                self._count(element)
        return handles

    def remove(self, handle: int) -> None:
        """Free a handle; raises as `get` does."""
        buffer = self._buffers.remove(handle)
        with self._lock:
            for leaf in _leaves(buffer):
                held = self._held[id(leaf)]
                held.count -= 1
                if held.count == 0:
                    del self._held[id(leaf)]
                    self._used -= leaf.byte_size

    def _keep(self, buffer: Buffer, reserved: int) -> int:
        try:
            handle = self._buffers.add(buffer)
        except ResourceExhaustedError:
            self._give_back(reserved)
            raise
        with self._lock:
            self._reserved -= reserved
            self._count(buffer)
        return handle

    def _count(self, buffer: Buffer) -> None:
        for leaf in _leaves(buffer):
            held = self._held.setdefault(id(leaf), _Held(leaf))
            if held.count == 0:
                self._used += leaf.byte_size
            held.count += 1

    def _give_back(self, byte_size: int) -> None:
        with self._lock:
            self._reserved -= byte_size


def _leaves(buffer: Buffer) -> Iterator[Buffer]:
    if buffer.shape.is_tuple:
        for element in buffer.elements:
            yield from _leaves(element)
    else:
        yield buffer
