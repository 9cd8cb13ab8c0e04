"""Buffers in the memory of devices, and copies of values to them.

The memory of an array is dense and row-major, whatever the layout of its shape, which applies only
when the value is serialised. Values that only the host reads, tokens and arrays of dynamic shape,
are kept as literals.
"""

import dataclasses
import sys
from collections.abc import Sequence

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_host.aligned import aligned_empty
from xla_server.backends.cuda.worker.supervisor.process import DeviceMemory, DeviceWorker
from xla_server.backends.device_buffer import Buffers
from xla_server.backends.host_buffer import DONATED, ONE_OWNER, literal_of
from xla_server.backends.platform import Device
from xla_server.execution.memory_check import LARGE, require_memory
from xla_server.ops.control.constant import value_of
from xla_server.ops.evaluation import Array, Value


@dataclasses.dataclass(slots=True, eq=False)
class CudaBuffer:
    """A value on a device. Implements xla_server.backends.device_buffer.DeviceBuffer.

    Once the worker of the device is lost, reading the value raises UnavailableError.
    """

    shape: Shape
    device: Device
    elements: tuple["CudaBuffer", ...] = ()
    memory: DeviceMemory | None = None
    """The memory of the dense row-major array, or None; its content must not change."""
    _literal: Literal | None = None
    """A value that is on the host only."""

    @property
    def byte_size(self) -> int:
        """The size of the value in bytes, elements of tuples included."""
        return self.shape.byte_size

    @property
    def address(self) -> DeviceMemory:
        """The memory of the array.

        Raises InvalidArgumentError for a buffer that was donated.
        """
        if self.memory is None:
            self._require_own()
            raise InvalidArgumentError(f"an argument must have static sizes, got {self.shape}")
        return self.memory

    @property
    def value(self) -> Value:
        """The value for an evaluator; its arrays are read-only."""
        return value_of(self.to_literal())

    @property
    def is_sole_owner(self) -> bool:
        """True if nothing else refers to the memory."""
        return self.memory is not None and sys.getrefcount(self.memory) == ONE_OWNER

    def donated(self) -> "CudaBuffer":
        """Return another buffer with this one's memory; this one must not be used afterwards."""
        other = dataclasses.replace(self)
        self.memory, self._literal = None, DONATED
        return other

    def as_shape(self, shape: Shape, device: Device) -> "CudaBuffer":
        """Return the elements in row-major order as an array of another shape; shares memory."""
        return _of_block(self.address, shape, device)

    def to_literal(self, shape: Shape | None = None) -> Literal:
        """Return the value for the host, in the layout of `shape` or else its own.

        Raises InvalidArgumentError when `shape` is not compatible, and for a buffer that was
        donated; UnavailableError if the device lost the value.
        """
        if shape is not None and not shape.compatible(self.shape):
            raise InvalidArgumentError(
                "the shape asked for must be compatible with the value, got "
                f"{shape} for {self.shape}"
            )
        literal = self._downloaded()
        return literal if shape is None else literal.relayout(shape)

    def _downloaded(self) -> Literal:
        self._require_own()
        if self._literal is not None:
            return self._literal
        if self.memory is None:
            return Literal.tuple_of([element.to_literal() for element in self.elements])
        array = host_array(self.shape)
        self.memory.worker.download(self.memory, as_bytes(array))
        array.flags.writeable = False
        return Literal(self.shape, array)

    def _require_own(self) -> None:
        if self._literal is DONATED:
            raise InvalidArgumentError(
                f"a buffer must not be used any more once it was donated, got {self.shape}"
            )


def _of_block(block: DeviceMemory, shape: Shape, device: Device) -> CudaBuffer:
    return CudaBuffer(shape, device, memory=block)


class DevicePlacement:
    """Copies values to devices, each of which has a worker."""

    def __init__(self, workers: Sequence[DeviceWorker]) -> None:
        self.workers = workers
        self.buffers = Buffers(
            CudaBuffer,
            self.from_value,
            _of_block,
            lambda elements, shape, device: CudaBuffer(shape, device, elements),
            self.moved,
            _worker_says,
        )

    def placed(self, literal: Literal, device: Device) -> CudaBuffer:
        """Copy a value to a device.

        Raises ResourceExhaustedError if its memory is full, UnavailableError if it is lost.
        """
        shape = literal.shape
        if shape.is_tuple:
            parts = tuple(self.placed(element, device) for element in literal.elements)
            return CudaBuffer(shape, device, parts)
        if not shape.is_array or literal.dynamic_sizes or shape.dynamic_dimensions:
            return CudaBuffer(shape, device, _literal=literal)
        memory = self.workers[device.ordinal].placed(as_bytes(literal.value))
        return _of_block(memory, shape, device)

    def from_value(self, value: Value, shape: Shape, device: Device) -> CudaBuffer:
        """Return a buffer of a shape with an evaluator's value; raises as `placed`."""
        return self.placed(literal_of(value, shape), device)

    def moved(self, buffer: CudaBuffer, device: Device) -> CudaBuffer:
        """Return an array on a device: itself, or a copy made through the host."""
        if buffer.device == device:
            return buffer
        return self.placed(buffer.to_literal(), device)


def host_array(shape: Shape) -> Array:
    """Return host memory for an array; raises ResourceExhaustedError if there is too little."""
    if shape.byte_size >= LARGE:
        require_memory(shape)
    return aligned_empty(shape.dimensions, shape.element_type.dtype)


def as_bytes(array: Array) -> Array:
    """Return an array as dense row-major bytes; a view of the array if it is dense."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _worker_says(byte_size: int, purpose: object) -> None:
    """Accept every size: the worker refuses allocations that do not fit, with no side effect."""
