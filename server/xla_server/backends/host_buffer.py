"""A buffer in the memory of the server's own process."""

import ctypes
import functools
import sys
import threading
from typing import Self

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_host import allocator
from xla_host.aligned import ALIGNMENT, aligned_empty
from xla_server.backends.device_buffer import Buffers
from xla_server.backends.platform import Device
from xla_server.ops.control.constant import value_of
from xla_server.ops.evaluation import Array, Token, Value
from xla_server.ops.numerics.dynamic_bounds import padded
from xla_server.runtime.blocks import BlockPool, MemoryBlock, block_size

_SMALL_BYTES = 1 << 16
"""Largest array, in bytes, that memmove copies: making a NumPy array of the target takes longer."""


class HostBuffer:
    """A value in host memory, assigned to a device.

    Implements xla_server.backends.platform.Buffer. It is held as a literal, or as the memory that a
    kernel wrote, from which a literal is made on demand. Either is read-only, so buffers share
    memory freely, and a change of layout is free until the value is serialised.
    """

    __slots__ = ("_address", "_literal", "device", "elements", "memory", "shape")

    def __init__(
        self,
        shape: Shape,
        device: Device,
        literal: Literal | None = None,
        elements: "tuple[HostBuffer, ...]" = (),
        memory: MemoryBlock | None = None,
    ) -> None:
        self.shape = shape
        self.device = device
        self.elements = elements
        self.memory = memory
        """The memory that a kernel wrote, or None for a literal; its content must not change."""
        self._literal = literal
        self._address: int | None = None if memory is None else memory.address

    @classmethod
    def of_literal(cls, literal: Literal, device: Device) -> Self:
        """Return a buffer that is held as a literal; shares its memory."""
        elements = tuple(cls.of_literal(element, device) for element in literal.elements)
        return cls(literal.shape, device, literal, elements)

    @classmethod
    def placed(cls, literal: Literal, device: Device, blocks: BlockPool) -> "HostBuffer":
        """Return a literal in the layout and alignment that kernels read.

        Arrays that are not dense, row-major and aligned to ALIGNMENT are copied once to memory of
        the server; others are shared.
        """
        shape = literal.shape
        if shape.is_tuple:
            parts = tuple(cls.placed(part, device, blocks) for part in literal.elements)
            return cls.of_elements(parts, shape, device)
        if not shape.is_array:
            return cls.of_literal(literal, device)
        value = literal.value
        is_dense = value.flags.c_contiguous
        address = value.__array_interface__["data"][0]
        if is_dense and address % ALIGNMENT == 0:
            return cls.of_literal(literal, device)
        if literal.dynamic_sizes:
            array = aligned_empty(shape.dimensions, value.dtype)
            np.copyto(array, value)
            array.flags.writeable = False
            return cls(shape, device, Literal(shape, array, (), literal.dynamic_sizes))
        size = block_size(value.nbytes)
        block = allocator.allocated(size, functools.partial(blocks.allocate, size))
        if is_dense and value.nbytes <= _SMALL_BYTES:
            ctypes.memmove(block.address, address, value.nbytes)
        else:
            np.copyto(block.array(shape), value)
        return cls.of_block(block, shape, device)

    @classmethod
    def from_value(cls, value: Value, shape: Shape, device: Device) -> "HostBuffer":
        """Return an evaluator's result as a buffer of this shape; shares the memory of `value`."""
        return cls.of_literal(literal_of(value, shape), device)

    @classmethod
    def of_block(cls, block: MemoryBlock, shape: Shape, device: Device) -> "HostBuffer":
        """Return the dense row-major array at the start of a block that is no longer written to.

        `shape` has the array's layout and static sizes.
        """
        return cls(shape, device, None, (), block)

    @classmethod
    def of_elements(
        cls, elements: tuple["HostBuffer", ...], shape: Shape, device: Device
    ) -> "HostBuffer":
        """Return the tuple of these buffers, which are on `device`."""
        return cls(shape, device, None, elements)

    def as_shape(self, shape: Shape, device: Device) -> "HostBuffer":
        """Return the elements in row-major order as an array of another shape; shares memory."""
        if self.memory is not None:
            return HostBuffer.of_block(self.memory, shape, device)
        if self.shape.compatible(shape):
            return HostBuffer.of_literal(self.literal.relayout(shape), device)
        # The element type may differ in signedness: a view reinterprets the bits.
        flat = np.ascontiguousarray(self.literal.value).reshape(-1).view(shape.element_type.dtype)
        array = flat.reshape(shape.dimensions)
        return HostBuffer.of_literal(Literal.from_numpy(array, shape, copy=False), device)

    @property
    def is_sole_owner(self) -> bool:
        """True if nothing else refers to the memory, arrays made from it included.

        Memory of a literal does not belong to the server, which must not write to it.
        """
        return self.memory is not None and sys.getrefcount(self.memory) == ONE_OWNER

    def donated(self) -> "HostBuffer":
        """Return another buffer with this one's memory; this one must not be used afterwards."""
        literal = None if self.memory is not None else self.literal
        other = HostBuffer(self.shape, self.device, literal, self.elements, self.memory)
        other._address = self._address
        self.memory = self._address = None
        self._literal = DONATED
        return other

    @property
    def byte_size(self) -> int:
        """The size of the value in bytes, elements of tuples included."""
        return self.shape.byte_size

    @property
    def literal(self) -> Literal:
        """The value in the buffer's layout; the same object each time."""
        literal = self._literal
        if literal is DONATED:
            raise InvalidArgumentError(
                f"a buffer must not be used any more once it was donated, got {self.shape}"
            )
        if literal is None:
            if self.memory is None:
                literal = Literal.tuple_of([element.literal for element in self.elements])
            else:
                array = self.memory.array(self.shape)
                array.flags.writeable = False
                literal = Literal(self.shape, array)
            self._literal = literal
        return literal

    @property
    def value(self) -> Value:
        """The value for an evaluator; its arrays are read-only."""
        return value_of(self.literal)

    @property
    def address(self) -> int:
        """The address of the array's elements, dense and row-major, while this object lives.

        An array that is not row-major is copied to that order once, on first use.
        """
        address = self._address
        return self._laid_out() if address is None else address

    def _laid_out(self) -> int:
        with _LAYING_OUT:
            if self._address is None:
                array = self.literal.value
                if not array.flags.c_contiguous:
                    array = np.ascontiguousarray(array).reshape(array.shape)
                    sizes = self.literal.dynamic_sizes
                    self._literal = Literal(self.shape, array, (), sizes)
                    array.flags.writeable = False
                self._address = int(array.ctypes.data)
            return self._address

    def to_literal(self, shape: Shape | None = None) -> Literal:
        """Return the value for the host; see Buffer.to_literal."""
        if shape is None:
            return self.literal
        if not shape.compatible(self.shape):
            raise InvalidArgumentError(
                "the shape asked for must be compatible with the value, got "
                f"{shape} for {self.shape}"
            )
        return self.literal.relayout(shape)


HOST_BUFFERS = Buffers(
    HostBuffer, HostBuffer.from_value, HostBuffer.of_block, HostBuffer.of_elements
)

DONATED = Literal.token()
"""Marks a donated buffer, instead of its literal."""


def _references() -> int:
    """Return the reference count of an attribute that has no other reference."""

    class Holder:
        __slots__ = ("held",)

    holder = Holder()
    holder.held = object()  # type: ignore[attr-defined]
    return sys.getrefcount(holder.held)  # type: ignore[attr-defined]


ONE_OWNER = _references()

_LAYING_OUT = threading.Lock()
"""Held while an array is copied to row-major order: its address must never change again."""


def literal_of(value: Value, shape: Shape) -> Literal:
    """Return an evaluator's value as a literal of this shape; shares its memory."""
    if isinstance(value, tuple):
        pairs = zip(value, shape.tuple_shapes, strict=True)
        return Literal.tuple_of([literal_of(part, part_shape) for part, part_shape in pairs])
    if isinstance(value, Token):
        return Literal.token()
    return Literal.from_numpy(_with_static_sizes(value, shape), shape, copy=False)


def _with_static_sizes(array: Array, shape: Shape) -> Array:
    """Pad the array with zeros in the dimensions that are static in `shape`."""
    sizes = zip(array.shape, shape.dimensions, strict=True)
    return padded(
        array,
        [size if shape.is_dynamic(number) else bound for number, (size, bound) in enumerate(sizes)],
    )
