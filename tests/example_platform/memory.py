"""The memory of a kernel that is walked: numpy arrays that are read and written by element.

Every access is checked against the bounds of the array, and against the rule that work items share
nothing: what one stores no other one loads or stores. Machine code would not notice either.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from xla_server.codegen.kernel_ir.expressions import Buffer, SharedArray, StackArray, Usage
from xla_server.codegen.kernel_ir.types import Type

DTYPES: dict[Type, np.dtype[Any]] = {
    Type.B1: np.dtype(np.bool_),
    **{kind: np.dtype(f"{kind[0]}{kind.byte_size}") for kind in Type if kind[0] in "iuf"},
    Type.C64: np.dtype(np.complex64),
    Type.C128: np.dtype(np.complex128),
}
"""The numpy type of values of each type."""

_SPACING = 40
"""Bits of an address within one array: arrays lie so far apart that no index reaches another."""

_UNSET = 0xFF
"""Bytes of an array of a kernel before it is stored to: a float of them is NaN."""


Own: TypeAlias = Buffer | StackArray | SharedArray
"""Memory that a kernel is given, or that is its own."""


class AccessError(Exception):
    """A kernel accesses an element that it does not have."""


class Array:
    """The bytes of a buffer, or of an array of the kernel itself."""

    def __init__(self, memory: Own, content: np.ndarray[Any, Any]) -> None:
        self.memory = memory
        self._bytes = content
        self._views: dict[Type, np.ndarray[Any, Any]] = {}
        self._owners: dict[int, int] = {}
        self._is_result = isinstance(memory, Buffer) and memory.usage is Usage.WRITE

    @classmethod
    def of_bytes(cls, memory: Own) -> "Array":
        """Return a new array whose bytes are set to what no kernel should read."""
        return cls(memory, np.full(memory.byte_size, _UNSET, np.uint8))

    def forget(self) -> None:
        """Set all bytes to what no kernel should read."""
        self._bytes[:] = _UNSET

    def load(self, kind: Type, index: int, item: int | None) -> Any:
        """Return an element. `item` is the work item that loads it, None outside of them."""
        view = self._checked(kind, index)
        if self._owners:
            self._check_owner(kind, index, item, "load")
        value = view[index]
        return value != 0 if kind is Type.B1 else value

    def store(self, kind: Type, index: int, value: Any, item: int | None) -> None:
        """Change an element."""
        view = self._checked(kind, index)
        if item is not None and self._is_result:
            self._check_owner(kind, index, item, "store")
            self._owners[index * kind.byte_size] = item
        view[index] = value

    def slice(self, offset: int, count: int) -> np.ndarray[Any, Any]:
        """Return `count` bytes from a byte on."""
        if offset < 0 or offset + count > self._bytes.size:
            raise AccessError(
                f"bytes of {self.memory.name} must be inside of its {self._bytes.size} bytes, "
                f"got {count} from byte {offset}"
            )
        return self._bytes[offset : offset + count]

    def _checked(self, kind: Type, index: int) -> np.ndarray[Any, Any]:
        view = self._views.get(kind)
        if view is None:
            size = self._bytes.size // kind.byte_size * kind.byte_size
            dtype = np.uint8 if kind is Type.B1 else DTYPES[kind]
            view = self._views[kind] = self._bytes[:size].view(dtype)
        if not 0 <= index < view.size:
            raise AccessError(
                f"an index of {self.memory.name} must be inside of its {view.size} elements of "
                f"{kind}, got {index}"
            )
        return view

    def _check_owner(self, kind: Type, index: int, item: int | None, access: str) -> None:
        owner = self._owners.get(index * kind.byte_size)
        if owner is not None and item is not None and owner != item:
            raise AccessError(
                f"a work item must not {access} an element that another one stores, got "
                f"{self.memory.name} element {index} of {kind} in items {owner} and {item}"
            )


TABLE = Buffer(-1, Usage.READ)
"""The table of buffer addresses."""


class Arrays:
    """The arrays of one call, by the memory that statements name, and by address."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        buffers = {a.memory.number: n for n, a in enumerate(arrays) if isinstance(a.memory, Buffer)}
        table = np.zeros(1 + max(buffers, default=0), np.int64)
        for number, position in buffers.items():
            table[number] = _address(position)
        self._arrays = [*arrays, Array(TABLE, table.view(np.uint8))]
        self._positions = {array.memory: n for n, array in enumerate(self._arrays)}

    def forget_shared(self) -> None:
        """Make the shared arrays those of another group."""
        for array in self._arrays:
            if isinstance(array.memory, SharedArray):
                array.forget()

    def __getitem__(self, memory: Own) -> Array:
        return self._arrays[self._positions[memory]]

    def address(self, memory: Own) -> int:
        """Return the address of the first byte of an array."""
        return _address(self._positions[memory])

    def located(self, address: int) -> tuple[Array, int]:
        """Return the array that an address is in, and the number of its byte there."""
        number, offset = divmod(address, 1 << _SPACING)
        if not 0 < number <= len(self._arrays):
            raise AccessError(f"an address must be in memory of the kernel, got {address:#x}")
        return self._arrays[number - 1], offset

    def load(self, kind: Type, address: int, index: int) -> Any:
        """Return element number `index` of those from an address on."""
        array, offset = self.located(address)
        return array.load(kind, offset // kind.byte_size + index, None)

    def store(self, kind: Type, address: int, index: int, value: Any) -> None:
        """Change an element."""
        array, offset = self.located(address)
        array.store(kind, offset // kind.byte_size + index, value, None)

    def spill(self, value: Any) -> int:
        """Return the address of new memory that holds a numpy scalar or row."""
        content = np.array(value, ndmin=1).view(np.uint8)
        self._arrays.append(Array(StackArray("spilled", content.size), content))
        return _address(len(self._arrays) - 1)

    def at(self, address: int, count: int) -> np.ndarray[Any, Any]:
        """Return `count` bytes from an address on."""
        array, offset = self.located(address)
        return array.slice(offset, count)


def _address(position: int) -> int:
    return (position + 1) << _SPACING
