"""The interface of buffers in the memory of a machine, as executables read and make them.

Memory is a handle that the platform alone looks into.
"""

from typing import Any, Protocol, Self, TypeAlias

from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer, Device
from xla_server.ops.evaluation import Value

Memory: TypeAlias = Any
"""A handle of a piece of the machine's memory, which is freed with its last reference."""


class DeviceBuffer(Buffer, Protocol):
    """A buffer that a platform made, in the memory of its machine."""

    @classmethod
    def from_value(cls, value: Value, shape: Shape, device: Device) -> Self:
        """Return a buffer of this shape with an evaluator's value."""

    @classmethod
    def of_block(cls, block: Memory, shape: Shape, device: Device) -> Self:
        """Return the dense row-major array at the start of memory that is not written any more."""

    @classmethod
    def of_elements(cls, elements: tuple[Self, ...], shape: Shape, device: Device) -> Self:
        """Return the tuple of these buffers, which are on `device`."""

    @property
    def elements(self) -> tuple[Self, ...]:
        """The elements of a tuple, as Buffer.elements says."""

    @property
    def value(self) -> Value:
        """The value for an evaluator; its arrays are read-only."""

    @property
    def address(self) -> int:
        """Address of the elements, dense and row-major, which stays as long as this object."""

    @property
    def memory(self) -> Memory:
        """A handle that keeps `address` valid and unchanged; None if the buffer itself does."""

    @property
    def is_sole_owner(self) -> bool:
        """True if an execution may write over the memory: nothing else refers to it."""

    def given_up(self) -> Self:
        """Return another buffer that replaces this one, which must not be used any more."""

    def as_shape(self, shape: Shape, device: Device) -> Self:
        """Return the elements in row-major order as an array of another shape; shares memory."""
