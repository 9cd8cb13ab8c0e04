"""The values that clients keep on the devices, and the memory they take."""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence

from xla_contract.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
    XlaError,
)
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer
from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.limits.shares.caller import LOCAL, Caller
from xla_server.sessions.values.futures import ValueFuture
from xla_server.sessions.values.handles import HandleFactory, HandleKind, HandleTable


@dataclasses.dataclass(slots=True, eq=False)
class Reservation:
    """Bytes reserved for values about to be made; as a context manager, until the block ends."""

    _table: "ValueTable"
    _byte_size: int
    _is_running: bool = False
    _on_release: Callable[[int], None] | None = None

    def grow(self, byte_size: int, purpose: object) -> None:
        """Reserve more for an upload, up to `byte_size` bytes; raises as `ValueTable.reserve`."""
        missing = byte_size - self._byte_size
        if missing > 0:
            self._table.charge(missing, purpose, is_upload=True)
            self._byte_size = byte_size

    def keep(self, buffer: Buffer) -> int:
        """Store a value under a new handle; its bytes replace the reservation."""
        byte_size, self._byte_size = self._byte_size, 0
        try:
            return self._table.store(buffer, byte_size, self._is_running)
        finally:
            if self._on_release is not None:
                self._on_release(byte_size)

    def shrink(self, byte_size: int) -> None:
        """Release all but `byte_size` bytes."""
        excess = self._byte_size - byte_size
        if excess > 0:
            self._byte_size = byte_size
            self._release_bytes(excess)

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the bytes unless a value was stored."""
        byte_size, self._byte_size = self._byte_size, 0
        if byte_size:
            self._release_bytes(byte_size)

    def _release_bytes(self, byte_size: int) -> None:
        self._table.uncharge(byte_size, self._is_running)
        if self._on_release is not None:
            self._on_release(byte_size)


class ValueTable:
    """Handle -> value of one session, the bytes of all distinct arrays counted once.

    They count against the session's `max_bytes` and the memory of all sessions.

    The elements of a tuple are shared, not copied, by the handles DeconstructTuple gives; their
    bytes are freed with the last handle.
    """

    def __init__(
        self,
        handles: HandleFactory,
        memory: MemoryBudget,
        *,
        max_bytes: int,
        max_handles: int,
        caller: Caller = LOCAL,
    ) -> None:
        self.max_bytes = max_bytes
        self._memory = memory
        self._caller = caller
        self.handles: HandleTable[Buffer | ValueFuture] = HandleTable(
            handles, HandleKind.DATA, max_handles
        )
        """The values, and the futures of outputs that are not computed yet."""
        self.unfetched: dict[int, str] = {}
        """The outputs of launched executions that the client has not fetched, freed, or passed to
        another execution, and the programs that compute them."""
        # Each distinct array, by identity -> the number of kept values that contain it.
        self._held: dict[Buffer, int] = {}
        self.used_bytes = 0
        """Bytes of the values kept, each distinct array once."""
        self.reserved_bytes = 0
        """Bytes reserved for values about to be made."""
        self._running = 0
        self._lock = threading.Lock()

    @property
    def staying_bytes(self) -> int:
        """Bytes in use that running executions do not give back when they end."""
        return self.used_bytes + self.reserved_bytes - self._running

    def __len__(self) -> int:
        return len(self.handles)

    def reserve(
        self,
        byte_size: int,
        purpose: object,
        *,
        is_running: bool = False,
        on_release: Callable[[int], None] | None = None,
    ) -> Reservation:
        """Reserve bytes before anything is allocated.

        `is_running` marks the memory of an execution, which gives it back; `on_release` is called
        with the number of bytes that are given back. Raises ResourceExhaustedError, with
        str(purpose), the limit and the use, if they do not fit. Raises InvalidArgumentError for
        a negative number, as a shape of an unbounded dimension has: it would lift others' limit.
        """
        self.charge(byte_size, purpose, is_running=is_running)
        return Reservation(self, byte_size, is_running, on_release)

    def require(self, byte_size: int, purpose: object, *, is_upload: bool = False) -> None:
        """Raise as `reserve` if so many bytes cannot be reserved now."""
        with self._lock:
            self._require_capacity(byte_size, purpose)
            self._memory.require(byte_size, purpose, self._caller, is_upload=is_upload)

    def reserve_later(self, byte_size: int, purpose: object) -> Reservation:
        """An empty reservation of an upload, to `grow` up to `byte_size` bytes as they arrive.

        Raises as `reserve` if that many bytes are not free now, so that no client sends bytes in
        vain.
        """
        self.require(byte_size, purpose, is_upload=True)
        return Reservation(self, 0)

    def charge(
        self,
        byte_size: int,
        purpose: object,
        *,
        is_upload: bool = False,
        is_running: bool = False,
    ) -> None:
        """Reserve bytes of the session and of the devices: every reservation passes here."""
        with self._lock:
            self._require_capacity(byte_size, purpose)
            running = byte_size if is_running else 0
            self._memory.reserve(
                byte_size, purpose, self._caller, is_upload=is_upload, running=running
            )
            self.reserved_bytes += byte_size
            self._running += running

    def _require_capacity(self, byte_size: int, purpose: object) -> None:
        """Raise if the session may not have so many bytes more. Called with the lock held."""
        if byte_size < 0:
            raise InvalidArgumentError(
                f"values must have bounded sizes, got {byte_size} bytes for {purpose}"
            )
        use = self.used_bytes + self.reserved_bytes
        if use + byte_size > self.max_bytes:
            raise ResourceExhaustedError(
                f"values of a session may take {self.max_bytes} bytes on the devices, got "
                f"{byte_size} bytes more for {purpose} with {use} in use",
                hint="Free values that are no longer needed (Buffer.delete, Unregister).",
            )

    def get(self, handle: int) -> Buffer:
        """The value; InvalidArgumentError for a freed handle, NotFoundError for one never issued.

        For the output of an execution, raises ValuePendingError until the execution has ended, and
        the execution's own error if it failed.
        """
        entry = self.handles.get(handle)
        if isinstance(entry, ValueFuture):
            if entry.error is not None:
                self.note_fetched([handle])
            return entry.result()
        return entry

    def shape(self, handle: int) -> Shape:
        """The shape of a value, known before the value is computed; raises as `get`."""
        entry = self.handles.get(handle)
        if isinstance(entry, ValueFuture):
            entry.require_no_error()
        return entry.shape

    def keep_all(self, buffers: Sequence[Buffer]) -> list[int]:
        """Keep values whose bytes are reserved elsewhere: all, or none if handles run out."""
        with self._lock:
            handles = self.handles.add_all(list(buffers))
            for buffer in buffers:
                self._count(buffer)
        return handles

    def expect(self, shapes: Sequence[Shape], program: str) -> list[tuple[int, ValueFuture]]:
        """Handles for values that a launched `program` will compute, all or none; see `fulfil`."""
        values = [ValueFuture(shape) for shape in shapes]
        handles = self.handles.add_all(list(values))
        self.unfetched.update(dict.fromkeys(handles, program))
        return list(zip(handles, values, strict=True))

    def note_fetched(self, handles: Iterable[int]) -> None:
        """Record that the client has values, or the errors that replace them.

        So have arguments of executions: of a chain the client waits for the last outputs.
        """
        for handle in handles:
            self.unfetched.pop(handle, None)

    def launch(self, handle: int, pending: ValueFuture, buffer: Buffer) -> None:
        """Set a value that `expect` made a handle for, and that the device will compute.

        It counts from now on, but calls that name the handle wait for `fulfil`, or for `fail`.
        """
        with self._lock:
            self._set(pending, buffer, is_live=self.handles.replace(handle, pending))
        pending.launch()

    def fulfil(self, handle: int, pending: ValueFuture, buffer: Buffer) -> None:
        """Set the value that `expect` made a handle for; a freed handle remains free.

        If it was launched, it is the same value.
        """
        with self._lock:
            is_live = self.handles.replace(handle, buffer)
            if pending.buffer is None:
                self._set(pending, buffer, is_live=is_live)
        pending.finish()

    def _set(self, pending: ValueFuture, buffer: Buffer, *, is_live: bool) -> None:
        for _ in range(pending.users + is_live):
            self._count(buffer)
        pending.buffer = buffer

    def fail(self, handle: int, pending: ValueFuture, error: XlaError) -> None:
        """Replace a value that `expect` made a handle for by an error, launched or not."""
        with self._lock:
            if pending.buffer is not None:
                is_live = self.handles.replace(handle, pending)
                for _ in range(pending.users + is_live):
                    self._discount(pending)
            pending.fail(error)
        pending.finish()

    def hold(self, handles: Sequence[int]) -> list[Buffer | ValueFuture]:
        """The values of different handles, kept until `release` even if the handles are freed.

        Raises as `get`, except for values that are not computed yet.
        """
        with self._lock:
            entries = [self.handles.get(handle) for handle in handles]
            for entry in entries:
                if isinstance(entry, ValueFuture):
                    entry.users += 1
                if (buffer := _set_buffer(entry)) is not None:
                    self._count(buffer)
        return entries

    def release(self, entries: Sequence[Buffer | ValueFuture]) -> None:
        """End a `hold`."""
        with self._lock:
            for entry in entries:
                if isinstance(entry, ValueFuture):
                    entry.users -= 1
                self._discount(entry)

    def is_held_once(self, buffer: Buffer) -> bool:
        """Return whether a single handle or `hold` keeps the memory of a value."""
        with self._lock:
            return all(self._held[leaf] == 1 for leaf in _leaves(buffer))

    def remove_all(self, handles: Sequence[int]) -> None:
        """Free different handles, all or none; raises as `get`, except for pending values."""
        with self._lock:
            for buffer in self.handles.remove_all(handles):
                self._discount(buffer)
        self.note_fetched(handles)

    def deconstruct(self, handle: int) -> list[int]:
        """A new handle for each element of a tuple, which remains valid.

        Raises InvalidArgumentError for a value that is no tuple and UnimplementedError for a
        tuple that holds tuples.
        """
        buffer = self.get(handle)
        if not buffer.shape.is_tuple:
            raise InvalidArgumentError(f"the value must be a tuple, got {buffer.shape}")
        if any(part.is_tuple for part in buffer.shape.tuple_shapes):
            raise UnimplementedError(
                f"only tuples without tuples inside are taken apart, got {buffer.shape}"
            )
        elements = self.keep_all(buffer.elements)
        program = self.unfetched.pop(handle, None)
        if program is not None:
            self.unfetched.update(dict.fromkeys(elements, program))
        return elements

    def remove(self, handle: int) -> None:
        """Free a handle; raises as `get` does."""
        self.remove_all([handle])

    def close(self) -> None:
        """Free all handles and refuse new ones."""
        with self._lock:
            for buffer in self.handles.close():
                self._discount(buffer)
        self.unfetched.clear()

    def store(self, buffer: Buffer, reserved: int, is_running: bool) -> int:
        """Keep a value for which bytes were reserved; returns its handle."""
        with self._lock:
            taken = -reserved
            try:
                handle = self.handles.add(buffer)
                taken += self._added(buffer)
            finally:
                running = reserved if is_running else 0
                self.reserved_bytes -= reserved
                self._running -= running
                self._memory.change(taken, self._caller, running=-running)
        return handle

    def _count(self, buffer: Buffer) -> None:
        self._memory.change(self._added(buffer), self._caller)

    def _added(self, buffer: Buffer) -> int:
        """Count one more use of a value; return its bytes that were not counted before."""
        added = 0
        for leaf in _leaves(buffer):
            count = self._held.get(leaf, 0)
            self._held[leaf] = count + 1
            if not count:
                added += leaf.byte_size
        self.used_bytes += added
        return added

    def _discount(self, entry: Buffer | ValueFuture) -> None:
        buffer = _set_buffer(entry)
        if buffer is None:
            return
        for leaf in _leaves(buffer):
            self._held[leaf] -= 1
            if not self._held[leaf]:
                del self._held[leaf]
                self.used_bytes -= leaf.byte_size
                self._memory.change(-leaf.byte_size, self._caller)

    def uncharge(self, byte_size: int, is_running: bool) -> None:
        """Free reserved bytes."""
        with self._lock:
            running = byte_size if is_running else 0
            self.reserved_bytes -= byte_size
            self._running -= running
            self._memory.change(-byte_size, self._caller, running=-running)


def _set_buffer(entry: Buffer | ValueFuture) -> Buffer | None:
    """Return a value, computed or not; None for a future that has none, which counts nothing."""
    return entry.buffer if isinstance(entry, ValueFuture) else entry


def _leaves(buffer: Buffer) -> Sequence[Buffer]:
    if not buffer.shape.is_tuple:
        return (buffer,)
    return [leaf for element in buffer.elements for leaf in _leaves(element)]


def checked_layout(wanted: Shape | None, kept: Shape, noun: str = "value") -> Shape:
    """The shape in which a value is sent: the wanted one, else its own.

    Raises InvalidArgumentError for a wanted shape without a layout, or that does not fit the value,
    which is called `noun` there.
    """
    if wanted is None:
        return kept
    if not wanted.has_layout:
        raise InvalidArgumentError(f"shape_with_layout must say its layout, got {wanted} without")
    if not wanted.compatible(kept):
        raise InvalidArgumentError(
            f"shape_with_layout must be compatible with the {noun}, got {wanted} for {kept}"
        )
    return wanted
