"""Programs of the example platform: thunks executed one after the other by Python."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.example_platform.formulas import UnsupportedKernelError
from tests.example_platform.walker import run, supported
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.assignment import Assignment, Location, MemoryUse, assign, memory_use
from xla_server.buffers.code import (
    CANCELLATION,
    Branch,
    Code,
    CollectiveThunk,
    CopyThunk,
    HostThunk,
    Jump,
    KernelThunk,
    Label,
    Switch,
    Thunk,
    Value,
)
from xla_server.buffers.work import ProgramWork
from xla_server.runtime.blocks import BlockPool, MemoryBlock, block_size
from xla_server.runtime.host import RunContext, arrays_of

Bytes = np.ndarray[Any, Any]


class WalkedProgram:
    """Implements xla_server.backends.loaded_program.LoadedProgram, but for times of thunks."""

    def __init__(
        self, code: Code, assignment: Assignment, blocks: BlockPool, work: ProgramWork | None
    ) -> None:
        """Raises UnsupportedKernelError for a kernel that cannot be walked."""
        for thunk in code.thunks:
            if isinstance(thunk, KernelThunk):
                _require_supported(thunk)
        self.code = code
        self.work = work
        self.thunks: Sequence[Thunk] = [
            thunk for thunk in code.thunks if not isinstance(thunk, Label)
        ]
        self.results = assignment.results
        self._assignment = assignment
        self._blocks = blocks
        self._labels = {thunk: n for n, thunk in enumerate(code.thunks) if isinstance(thunk, Label)}
        arrays = dict(enumerate(code.constants.values()))
        self.constants: Mapping[int, MemoryBlock] = {
            n: self._block_of(a) for n, a in arrays.items()
        }

    @property
    def memory(self) -> MemoryUse:
        """The bytes that an execution needs."""
        return memory_use(self.code, self._assignment)

    @property
    def byte_size(self) -> int:
        """Bytes of the constants."""
        return sum(value.byte_size for value in self.code.constants)

    def with_donated(self, donated: frozenset[int]) -> "WalkedProgram":
        """Return the program for runs that may write over these parameters."""
        return WalkedProgram(self.code, assign(self.code, donated), self._blocks, self.work)

    @property
    def round_robin(self) -> None:
        """Each participant has a thread."""

    def run(
        self, addresses: Sequence[int], device: object, context: RunContext
    ) -> tuple[dict[int, MemoryBlock], int]:
        """Return the memory of the results by number, and 0 cycles: nothing counts them."""
        collectives = context.options.collectives
        position = {
            Opcode.REPLICA_ID: collectives.replica_id,
            Opcode.PARTITION_ID: collectives.partition_id,
        }
        numbers = [np.array(position[opcode], np.uint32) for opcode in self.code.numbers]
        addresses = [*addresses, *(number.ctypes.data for number in numbers)]
        own = {place.number for place in self.results if place.kind == "result"}
        sizes = {n: block_size(self.code.results[n].byte_size) for n in own}
        results = {number: self._blocks.allocate(size) for number, size in sizes.items()}
        arena = np.zeros(self._assignment.arena_bytes, np.uint8)
        places = dict(zip(_numbered("parameter", len(addresses)), addresses, strict=True))
        places |= {Location("constant", n): block.address for n, block in self.constants.items()}
        places |= {Location("result", n): block.address for n, block in results.items()}
        _Run(self._assignment, self._labels, places, arena, context).walk(self.code.thunks)
        return results, 0

    def run_on_arrays(
        self, arrays: Sequence[Any], shapes: Sequence[Shape], device: object, context: RunContext
    ) -> tuple[list[Any], int]:
        """Run on arrays of the host; return the results, which have `shapes`, and the cycles."""
        blocks, cycles = self.run([a.ctypes.data for a in arrays], device, context)
        owners = {"result": blocks, "constant": self.constants}
        found: list[Any] = []
        for place, shape in zip(self.results, shapes, strict=True):
            if place.kind == "parameter":
                found.append(arrays[place.number].reshape(shape.dimensions))
            else:
                found.append(owners[place.kind][place.number].array(shape))
        return found, cycles

    def _block_of(self, array: Any) -> MemoryBlock:
        block = self._blocks.allocate(block_size(array.nbytes))
        np.asarray(block)[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return block


def _require_supported(thunk: KernelThunk) -> None:
    try:
        supported(thunk.kernel)
    except UnsupportedKernelError as error:
        raise UnsupportedKernelError(f"%{thunk.name}: {error}") from error


class _Run:
    """One execution of a program."""

    def __init__(
        self,
        assignment: Assignment,
        labels: Mapping[Label, int],
        places: Mapping[Location, int],
        arena: Bytes,
        context: RunContext,
    ) -> None:
        self._assignment, self._labels = assignment, labels
        self._places, self._arena = places, arena
        self._context, self._cancellation = context, context.options.cancellation

    def walk(self, thunks: Sequence[Thunk]) -> None:
        """Execute thunks from the first on, until there is none."""
        number = 0
        while number < len(thunks):
            self._cancellation.check()
            target = self._do(thunks[number])
            number = number + 1 if target is None else self._labels[target]

    def _do(self, thunk: Thunk) -> Label | None:
        """Execute a thunk; return the label to go on at, None for the next thunk."""
        match thunk:
            case KernelThunk():
                run(
                    thunk.kernel,
                    [self._bytes(value) for value in thunk.arguments],
                    0,
                    thunk.work_items,
                )
            case CopyThunk():
                self._bytes(thunk.target)[:] = self._bytes(thunk.source)
            case Jump(label=label):
                return label
            case Branch(predicate=predicate, otherwise=otherwise):
                return None if self._bytes(predicate)[0] else otherwise
            case Switch(index=index, labels=labels):
                chosen = int(self._bytes(index).view(np.int32)[0])
                return labels[chosen if 0 <= chosen < len(labels) else -1]
            case HostThunk():
                self._do_on_host(thunk)
            case CollectiveThunk(host=host, end=end):
                self._do_on_host(host)
                return end
        return None

    def _do_on_host(self, thunk: HostThunk) -> None:
        reads, writes = (list(map(self._array, values)) for values in (thunk.reads, thunk.writes))
        thunk.run(self._context.host, reads, writes)

    def _array(self, value: Value) -> Any:
        dtype, dimensions = value.shape.element_type.dtype, value.shape.dimensions
        return self._bytes(value).view(dtype).reshape(dimensions)

    def _bytes(self, value: Value) -> Bytes:
        if value is CANCELLATION:
            return _at(self._cancellation.flag_address, value.byte_size)
        place = self._assignment.locations[value]
        if place.kind == "arena":
            return self._arena[place.number : place.number + value.byte_size]
        return _at(self._places[place], value.byte_size)


def _at(address: int, count: int) -> Bytes:
    array: Bytes = arrays_of(Shape.parse(f"u8[{count}]"))(address)
    return array


def _numbered(kind: str, count: int) -> list[Location]:
    return [Location(kind, number) for number in range(count)]
