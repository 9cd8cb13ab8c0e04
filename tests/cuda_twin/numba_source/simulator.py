"""The numba source of kernels for a GPU, executed by numba's simulator of CUDA.

numba gives the threads, blocks, barriers and shared memory. Instructions are those of a GPU, as
functions of numpy scalars. The simulator has no shuffles: lanes of a warp exchange values here.
The environment must say NUMBA_ENABLE_CUDASIM=1 before numba is imported.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numba import cuda

from tests.cuda_twin.device.twin import DEVICE
from tests.example_platform.instructions import INSTRUCTIONS
from tests.example_platform.memory import DTYPES, AccessError, Array
from tests.example_platform.routines.python_functions import applied, scalar
from xla_server.codegen.gpu.emit.instructions import instructions
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.instruction import Instruction
from xla_server.codegen.kernel_ir.expressions import Buffer, SharedArray, Usage
from xla_server.codegen.kernel_ir.types import Type
from xla_server.execution import cancellation_flag
from xla_server.target.gpu.properties import ACCESS_BYTES, WARP

Scalar = Any
"""A numpy scalar, or a number of Python where the source has one."""

_LOADS = {usage.load for usage in Usage}
_STORES = {usage.store for usage in Usage}

_SPACING = 40
"""Bits of an address within one array: arrays are so far apart that no index reaches another."""

_UNSET = 0xFF
"""Bytes of shared memory before they are stored to: a float of them is NaN."""

_LANES_SECONDS = 60
"""Seconds until a shuffle that not all lanes of a warp reach is an error."""


class Memory:
    """The memory of one launch: buffers by their addresses, and the shared memory of a block."""

    def __init__(self, grid: GridKernel, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        buffers, count = grid.kernel.buffers, len(arrays)
        self.arrays = [_Stored(each, arrays[each.number]) for each in buffers]
        table = np.zeros(count, np.int64)
        for position, buffer in enumerate(buffers):
            table[buffer.number] = (position + 1) << _SPACING
        content = table.view(np.uint8)
        self._arrays: list[Array] = [Array(Buffer(count, Usage.READ), content), *self.arrays]
        sizes = [-(-each.byte_size // ACCESS_BYTES) * ACCESS_BYTES for each in grid.kernel.shared]
        self.shared_bytes = sum(sizes)
        self._shared = Array(SharedArray("shared", 0), np.zeros(0, np.uint8))
        self._threads = threading.local()
        self._lanes: dict[tuple[int, int], tuple[threading.Barrier, list[Scalar]]] = {}

    def begin_block(self, memory: np.ndarray[Any, Any]) -> None:
        """Make a numpy array the shared memory of the block that begins."""
        memory[:] = _UNSET
        self._shared = Array(SharedArray("shared", memory.size), memory)

    def begin_thread(self) -> None:
        """Forget which shared arrays the thread that calls it has."""
        self._threads.used_bytes = 0

    def shared_array(self, size: int) -> np.int64:
        """Return the address of the next shared array; each thread asks for all, in order."""
        first = self._threads.used_bytes
        self._threads.used_bytes += -(-size // ACCESS_BYTES) * ACCESS_BYTES
        return np.int64((len(self._arrays) << _SPACING) + first)

    def load(self, kind: Type, address: Scalar, index: Scalar) -> Scalar:
        """Return an element by its number from an address on."""
        array, first = self._located(kind, address)
        return array.load(kind, first + int(index), None)

    def store(self, kind: Type, address: Scalar, index: Scalar, value: Scalar) -> None:
        """Change an element. Raises TypeError for a value of another type."""
        if scalar(value).dtype != DTYPES[kind]:
            raise TypeError(f"{kind} must be stored, got {value!r} of {type(value).__name__}")
        array, first = self._located(kind, address)
        array.store(kind, first + int(index), value, None)

    def exchange(self, value: Scalar, distance: int) -> Scalar:
        """Return the value of another lane of the warp. All lanes call it together."""
        warp, lane = divmod(cuda.threadIdx.x, WARP)
        key = cuda.blockIdx.x, warp
        meeting, values = self._lanes.setdefault(key, (threading.Barrier(WARP), [None] * WARP))
        values[lane] = value
        meeting.wait(_LANES_SECONDS)
        found = values[lane ^ distance]
        meeting.wait(_LANES_SECONDS)
        return found

    def _located(self, kind: Type, address: Scalar) -> tuple[Array, int]:
        number, offset = divmod(int(address), 1 << _SPACING)
        if offset % kind.byte_size or not 0 <= number <= len(self._arrays):
            raise AccessError(f"an address must be in memory of the kernel, got {address:#x}")
        array = self._shared if number == len(self._arrays) else self._arrays[number]
        return array, offset // kind.byte_size


class _Stored(Array):
    """An array that knows the bytes that were stored to."""

    def __init__(self, memory: Buffer, content: np.ndarray[Any, Any]) -> None:
        super().__init__(memory, content)
        self.stored = np.zeros(content.size, np.bool_)

    def store(self, kind: Type, index: int, value: Scalar, item: int | None) -> None:
        super().store(kind, index, value, item)
        self.stored[index * kind.byte_size : (index + 1) * kind.byte_size] = True


def run(
    grid: GridKernel, arrays: Sequence[np.ndarray[Any, Any]], blocks: Collection[int]
) -> Mapping[int, np.ndarray[Any, Any]]:
    """Execute the source of a kernel, in the blocks of these numbers.

    Args:
        grid: The kernel and its launch.
        arrays: The bytes of each argument, which are changed.
        blocks: Numbers of blocks; threads of all others return at once.

    Returns:
        A mask of the bytes that were stored to, by the number of each buffer.

    Raises:
        NameError: The source has a name that is not defined.
        AccessError: It accesses what the memory of the kernel does not have.
    """
    memory = Memory(grid, arrays)
    names = dict(_names(memory))
    exec(compile(grid.text, "<kernel>", "exec"), names)
    _thread[grid.blocks, grid.threads](names["kernel"], memory, grid.kernel.items, blocks)
    numbers = [each.number for each in grid.kernel.buffers]
    return {n: array.stored for n, array in zip(numbers, memory.arrays, strict=True)}


@cuda.jit  # type: ignore[untyped-decorator]
def _thread(kernel: Any, memory: Memory, items: int, blocks: Collection[int]) -> None:
    """Execute the work item of a thread, if there is one."""
    if cuda.blockIdx.x not in blocks:
        return
    if memory.shared_bytes:
        if cuda.threadIdx.x == 0:
            memory.begin_block(cuda.shared.array(memory.shared_bytes, np.uint8))
        cuda.syncthreads()
    memory.begin_thread()
    start = min(cuda.grid(1), items)
    stop = min(start + 1, items)
    # A new thread has numpy's warnings.
    with np.errstate(all="ignore"):
        kernel(np.int64(0), np.int64(start), np.int64(stop))


def _names(memory: Memory) -> Mapping[str, Any]:
    """Return what the names in a kernel's source mean."""
    found: dict[str, Any] = {**CONSTANTS, "shared_array": memory.shared_array, "barrier": _barrier}
    for name, called in instructions(DEVICE).items():
        verb, _, kind = name.rpartition("_")
        if verb in _LOADS:
            found[name] = _load(memory, Type(kind))
        elif verb in _STORES:
            found[name] = _store(memory, Type(kind))
        else:
            found[name] = _function(name, called)
    found |= {f"exchange_{kind}": memory.exchange for kind in Type}
    found["watch_i64"] = lambda at: memory.load(Type.I64, at, 0) == cancellation_flag.STOP
    return found


def _barrier() -> None:
    cuda.syncthreads()


def _load(memory: Memory, kind: Type) -> Callable[..., Scalar]:
    return lambda address, index: memory.load(kind, address, index)


def _store(memory: Memory, kind: Type) -> Callable[..., None]:
    return lambda address, index, value: memory.store(kind, address, index, value)


def _function(name: str, called: Instruction) -> Callable[..., Any]:
    """Return an instruction of a GPU as a function of numpy scalars."""
    simple = INSTRUCTIONS.get(name)
    if simple is not None:
        return lambda *operands: simple(*map(scalar, operands))
    return lambda *operands: applied(name, called, [scalar(each) for each in operands], called)
