"""The interface of buffers in a machine's memory, for executables.

Only the platform interprets a memory handle.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer, Device
from xla_server.execution.memory_check import require_bytes
from xla_server.ops.evaluation import Value

Memory: TypeAlias = Any
"""A handle of an allocation of the machine's memory, which is freed with its last reference."""


class DeviceBuffer(Buffer, Protocol):
    """A buffer of a platform, in the memory of its machine."""

    @property
    def elements(self) -> tuple[Self, ...]:
        """The elements of a tuple; see Buffer.elements."""

    @property
    def value(self) -> Value:
        """The value for an evaluator; its arrays are read-only."""

    @property
    def address(self) -> Any:
        """The address of the elements, dense and row-major, for programs of the platform.

        It is valid as long as this object. For host memory it is an integer.
        """

    @property
    def memory(self) -> Memory:
        """A handle that keeps `address` valid and unchanged; None if the buffer itself does."""

    @property
    def is_sole_owner(self) -> bool:
        """True if an execution may overwrite the memory: nothing else refers to it."""

    def donated(self) -> Self:
        """Return a new buffer with this one's value; this one must not be used afterwards."""

    def as_shape(self, shape: Shape, device: Device) -> Self:
        """Return the elements in row-major order as an array of another shape; shares memory."""


B = TypeVar("B", bound=DeviceBuffer)


@dataclasses.dataclass(frozen=True, slots=True)
class Buffers(Generic[B]):
    """The functions by which a platform makes its buffers, which are of the class `kind`.

    `from_value` returns a buffer of a shape with an evaluator's value, `of_block` the dense
    row-major array at the start of memory that is no longer written, `of_elements` the tuple of
    buffers, which are on the device. `moved` returns the buffer itself or a copy of it on a device;
    it is None if devices share their memory. `require_memory` raises ResourceExhaustedError if that
    many bytes, for the purpose in its second argument, are not free.
    """

    kind: type[B]
    from_value: Callable[[Value, Shape, Device], B]
    of_block: Callable[[Memory, Shape, Device], B]
    of_elements: Callable[[tuple[B, ...], Shape, Device], B]
    moved: Callable[[B, Device], B] | None = None
    require_memory: Callable[[int, object], None] = require_bytes
