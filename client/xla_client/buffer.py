"""Values that live on the server."""

from typing import Any

from numpy.typing import DTypeLike

from xla_client._session import Session
from xla_client.transfers import Progress
from xla_contract.errors import InvalidArgumentError
from xla_contract.layout import Layout
from xla_contract.literal import Array, Literal, Nested
from xla_contract.shape import Shape
from xla_contract.stubs import xla_data_pb2, xla_pb2


class Buffer:
    """A value on a device of the server.

    It is freed by `delete`, some time after it is garbage collected, or when its client closes.
    """

    __slots__ = ("__weakref__", "_finalizer", "_handle", "_session", "_shape")

    def __init__(self, session: Session, handle: int, shape: Shape) -> None:
        self._session = session
        self._handle = handle
        self._shape = shape
        self._finalizer = session.hold(self, handle, shape.byte_size)

    @property
    def shape(self) -> Shape:
        """The shape, with the layout in which the value is kept."""
        return self._shape

    @property
    def handle(self) -> int:
        """The data handle on the wire; raises InvalidArgumentError once deleted."""
        if not self._finalizer.alive:
            raise InvalidArgumentError(
                f"a buffer must be alive to be used, got the deleted {self._shape}"
            )
        return self._handle

    @property
    def is_deleted(self) -> bool:
        """Whether `delete` was called."""
        return not self._finalizer.alive

    def to_numpy(self, *, timeout: float | None = None, progress: Progress | None = None) -> Nested:
        """Fetch the value: an array, a tuple for a tuple, None for a token. Read only.

        `progress` is told, now and then, how many bytes have come, and of how many.
        """
        return self.to_literal(timeout=timeout, progress=progress).to_numpy()

    def to_literal(
        self,
        layout: Layout | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Literal:
        """Fetch the value, laid out for the wire as `layout` says, or row by row.

        `progress` is as in `to_numpy`.
        """
        shape = self._shape.without_layout()
        if layout is not None:
            shape = shape.with_layout(layout)
        wanted = shape.with_default_layout()
        return self._session.download(self.handle, wanted, timeout, progress)

    def deconstruct(self, *, timeout: float | None = None) -> "tuple[Buffer, ...]":
        """The elements of a tuple, as buffers that share its memory; the tuple stays.

        Raises InvalidArgumentError for an array and UnimplementedError for nested tuples.
        """
        request = xla_pb2.DeconstructTupleRequest(
            tuple_handle=xla_data_pb2.GlobalDataHandle(handle=self.handle)
        )
        response = self._session.call("DeconstructTuple", request, timeout)
        return tuple(
            Buffer(self._session, element.handle, shape)
            for element, shape in zip(
                response.element_handles, self._shape.tuple_shapes, strict=True
            )
        )

    def delete(self, *, timeout: float | None = None) -> None:
        """Free the value now; a second call does nothing."""
        if self._finalizer.detach() is not None:
            self._session.delete(self._handle, timeout)

    def give_up(self, *, is_freed: bool) -> None:
        """End its life after it was donated; `is_freed` says whether the server has freed it."""
        if not is_freed:
            # It is not known: freeing what is free does no harm.
            self._finalizer()
        elif self._finalizer.detach() is not None:
            self._session.reclaimer.forget(self._handle)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a buffer on the server cannot become an array without a copy")
        value: Any = self.to_numpy()
        if isinstance(value, tuple) or value is None:
            raise TypeError(f"only an array can become a numpy array, got {self._shape}")
        # Who asks for a copy gets an array of its own, which can be written.
        array: Array = value.astype(value.dtype if dtype is None else dtype, copy=bool(copy))
        return array

    def __repr__(self) -> str:
        return f"Buffer({self._shape}{', deleted' if self.is_deleted else ''})"


def unpacked(buffer: Buffer, *, timeout: float | None = None) -> Buffer | tuple[Buffer, ...]:
    """A tuple's elements; the buffer itself for anything else, and for nested tuples."""
    parts = buffer.shape.tuple_shapes
    if not buffer.shape.is_tuple or any(part.is_tuple for part in parts):
        return buffer
    return buffer.deconstruct(timeout=timeout) if parts else ()
