"""Values that live on the server."""

import asyncio
import importlib
import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import DTypeLike

from xla_client.coercion.parameters import brief, parameter_class
from xla_client.display.tables import human_bytes, table
from xla_client.session.public_methods import public, public_coroutine
from xla_client.session.session import Session
from xla_client.transfers.progress import Progress
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Array, Literal
from xla_contract.types.shape import Shape

_MESSAGE_BYTES = 1 << 18
"""Largest value, in bytes, that coroutines fetch in one message; others are fetched in a thread."""


def _comparison(compare: Callable[[Any, Any], Any]) -> Any:
    """Return the method by which a Buffer is compared with a number, as its array of numpy is.

    Other objects compare themselves with it, as arrays of numpy do.
    """

    def compared(buffer: "Buffer", other: object) -> Any:
        is_number = isinstance(other, int | float | complex)
        return compare(buffer.__array__(), other) if is_number else NotImplemented

    return compared


@parameter_class
class Buffer:
    """A value on a device of the server.

    It is freed by `delete`, some time after it is garbage collected, or when its client closes.
    Each access to its elements fetches the whole value: `float(buffer)`, `f"{buffer:.3f}"`,
    `buffer[0]`, `buffer < 1`, `for row in buffer`, `np.asarray(buffer)`. Its shape, `dtype`,
    `ndim`, `size` and `nbytes` are known here. `==` compares elements with a number or an array;
    of two Buffers it tells whether they are one object.

    Attributes:
        jax_type: Its type in JAX if a function of `Client.jit` returned it, else None: dimensions,
            dtype (that of typed keys for such), and whether it is weak.
    """

    __slots__ = (
        "__weakref__",
        "_finalizer",
        "_generation",
        "_handle",
        "_session",
        "_shape",
        "jax_type",
    )

    def __init__(self, session: Session, handle: int, shape: Shape) -> None:
        self._session = session
        self._generation = session.generation
        self._handle = handle
        self._shape = shape
        self._finalizer = session.hold(self, handle, shape.byte_size)
        self.jax_type: tuple[tuple[int, ...], Any, bool] | None = None

    @property
    def shape(self) -> Shape:
        """The shape, with the layout in which the server stores the value."""
        return self._shape

    @property
    def handle(self) -> int:
        """The data handle on the wire.

        Raises:
            InvalidArgumentError: The buffer was deleted.
            LostError: The server was restarted.
        """
        self.require_present()
        if not self._finalizer.alive:
            raise InvalidArgumentError(
                f"a buffer must be alive to be used, got the deleted {self._shape}",
                hint="delete() and runs that it is donated to end it; donate=() of a run keeps it.",
            )
        return self._handle

    @property
    def is_deleted(self) -> bool:
        """True if `delete` was called."""
        return not self._finalizer.alive

    @property
    def is_lost(self) -> bool:
        """True if its session is gone, as after a restart of the server."""
        return self._generation is not self._session.generation

    def require_present(self) -> None:
        """Raise LostError if it is lost."""
        if self.is_lost:  # The words take longer than the rest of an argument's checks.
            self._session.require_present(self._generation, f"a value of {self._shape}")

    @brief
    def to_numpy(self, *, timeout: float | None = None, progress: Progress | None = None) -> Array:
        """Fetch the value.

        Args:
            timeout: Seconds until DeadlineExceededError; None for the client's own.
            progress: A function that is called repeatedly with the bytes received so far and in
                total; through shared memory, from another thread.

        Returns:
            A read-only array, a tuple for a tuple, None for a token. Type checkers take it for an
            array.

        Raises:
            InvalidArgumentError: The buffer was deleted or donated.
            LostError: The server was restarted.
            XlaError: The run that computes the value failed.
        """
        value: Any = self.to_literal(timeout=timeout, progress=progress).to_numpy()
        return cast(Array, value)

    @public
    def to_literal(
        self,
        layout: Layout | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Literal:
        """Fetch the value as a Literal.

        Args:
            layout: The layout of the Literal; row-major by default.
            timeout: Seconds until DeadlineExceededError; None for the client's own.
            progress: A function that is called with the progress; see `to_numpy`.

        Returns:
            The Literal.
        """
        shape = self._shape.without_layout()
        if layout is not None:
            shape = shape.with_layout(layout)
        wanted = shape.with_default_layout()
        return self._session.download(self.handle, wanted, timeout, progress)

    async def ato_numpy(
        self, *, timeout: float | None = None, progress: Progress | None = None
    ) -> Array:
        """Fetch the value as `to_numpy` does, without blocking the event loop."""
        if self._shape.byte_size > _MESSAGE_BYTES:
            return await asyncio.to_thread(self.to_numpy, timeout=timeout, progress=progress)
        literal = await self._aliteral(timeout)
        if progress is not None:
            progress(self._shape.byte_size, self._shape.byte_size)
        value: Any = literal.to_numpy()
        return cast(Array, value)

    @public_coroutine
    async def _aliteral(self, timeout: float | None) -> Literal:
        """Fetch a small value row by row."""
        wanted = self._shape.without_layout().with_default_layout()
        return await self._session.adownload(self.handle, wanted, timeout)

    @public
    def deconstruct(self, *, timeout: float | None = None) -> "tuple[Buffer, ...]":
        """The elements of a tuple, as buffers that share its memory; the tuple stays.

        Args:
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            A buffer for each element.

        Raises:
            InvalidArgumentError: The buffer is no tuple.
            UnimplementedError: The tuple holds a tuple.
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

    @public
    def delete(self, *, timeout: float | None = None) -> None:
        """Free the value now; a second call does nothing."""
        if self._finalizer.detach() is not None and not self.is_lost:
            self._session.delete(self._handle, timeout)

    def give_up(self, *, is_freed: bool) -> None:
        """Mark the buffer as donated; `is_freed` says whether the server has freed it."""
        if not is_freed:
            # It is not known whether the server freed the handle; freeing it again does no harm.
            self._finalizer()
        elif self._finalizer.detach() is not None:
            self._session.reclaimer.forget(self._handle)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a buffer on the server cannot become an array without a copy")
        value: Any = self.to_numpy()
        if isinstance(value, tuple) or value is None:
            raise TypeError(f"only an array can become a numpy array, got {self._shape}")
        # A copy must be writable.
        array: Array = value.astype(value.dtype if dtype is None else dtype, copy=bool(copy))
        return array

    def __jax_array__(self) -> Any:
        """Return the value as an array of JAX, which `jax.numpy.asarray` asks for; fetches it."""
        return importlib.import_module("jax.numpy").asarray(self.__array__())

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The numpy element type; raises TypeError for a tuple."""
        return self._array_shape("a dtype").element_type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions; raises TypeError for a tuple."""
        return len(self._array_shape("dimensions").dimensions)

    @property
    def size(self) -> int:
        """The number of elements; raises TypeError for a tuple."""
        return math.prod(self._array_shape("a size").dimensions)

    @property
    def nbytes(self) -> int:
        """The bytes of the value on the server, those of all elements for a tuple."""
        return self._shape.byte_size

    def item(self, *index: int) -> Any:
        """The one element, or that at an index, as a Python number; fetches the value."""
        return self.__array__().item(*index)

    def tolist(self) -> Any:
        """The elements as a Python number or nested lists of them; fetches the value."""
        return self.__array__().tolist()

    def __format__(self, spec: str) -> str:
        """Format a scalar as its Python number; without a `spec`, as the text of the Buffer."""
        return format(self.item(), spec) if spec else str(self)

    if not TYPE_CHECKING:  # Type checkers shall know of no other attribute.

        def __getattr__(self, name: str) -> NoReturn:
            advice = ""
            if name == "block_until_ready":
                advice = "; its value is there when the run returns (submit does not wait)"
            elif hasattr(np.ndarray, name) and not name.startswith("_"):
                advice = f"; buffer.to_numpy().{name} fetches the value"
            raise AttributeError(f"a Buffer has no attribute {name!r}{advice}", name=name, obj=self)

    def __float__(self) -> float:
        return float(self.__array__())

    def __int__(self) -> int:
        return int(self.__array__())

    def __complex__(self) -> complex:
        return complex(self.__array__())

    def __index__(self) -> int:
        return operator.index(self.item())

    def __bool__(self) -> bool:
        """Return the truth of the one element; raises ValueError for several, as numpy does."""
        return bool(self.__array__())

    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)
    __hash__ = object.__hash__

    def __len__(self) -> int:
        if self._shape.is_tuple:
            return len(self._shape.tuple_shapes)
        dimensions = self._array_shape("a length").dimensions
        if not dimensions:
            raise TypeError(f"a scalar has no length, got {self._shape}")
        return dimensions[0]

    def __getitem__(self, index: Any) -> Any:
        """Fetch the value and index the numpy array; of a tuple, a Buffer of that element.

        To take a part of a large value on the server, write a program with `ops.slice`.

        Args:
            index: An index as numpy takes it; the number of the element for a tuple.

        Returns:
            An array or a number; a Buffer for a tuple.
        """
        return self.deconstruct()[index] if self._shape.is_tuple else self.__array__()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.deconstruct() if self._shape.is_tuple else self.__array__())

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a Buffer is on its server and cannot be pickled or copied, got {self!r}: pickle "
            "to_numpy(), or Client.session_token with the handle, which Client.adopt takes"
        )

    def __repr__(self) -> str:
        state = ", lost" if self.is_lost else ", deleted" if self.is_deleted else ""
        return f"Buffer({self._shape}{state})"

    def _repr_html_(self) -> str:
        state = "lost" if self.is_lost else "deleted" if self.is_deleted else "on the server"
        rows = {"shape": self._shape, "bytes": human_bytes(self.nbytes), "state": state}
        return table("Buffer", rows)

    def _array_shape(self, what: str) -> Shape:
        """The shape; TypeError unless it is an array's."""
        if not self._shape.is_array:
            raise TypeError(f"only an array has {what}, got {self._shape}")
        return self._shape


def unpacked(buffer: Buffer, *, timeout: float | None = None) -> Buffer | tuple[Buffer, ...]:
    """A tuple's elements; the buffer itself for anything else, and for nested tuples."""
    parts = buffer.shape.tuple_shapes
    if not buffer.shape.is_tuple or any(part.is_tuple for part in parts):
        return buffer
    return buffer.deconstruct(timeout=timeout) if parts else ()
