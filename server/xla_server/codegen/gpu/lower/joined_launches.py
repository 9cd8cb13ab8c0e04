"""Launches that several small independent kernels share.

A launch takes longer than such a kernel. Together they take as long as the longest one, as a GPU
executes their threads concurrently. A kernel is only moved past independent thunks. It may have to
wait for inputs of other kernels of its launch.

Semantics: XLA's GPU backend, its horizontal loop fusion.
"""

import dataclasses
from collections.abc import Iterator, Sequence

from xla_server.buffers.code import Code, CopyThunk, KernelThunk, Thunk, Value, reads, writes
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.joined import joined_grid
from xla_server.codegen.gpu.lower.loop_nests.loop_lowering import fitting_bits
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.target.gpu.properties import (
    JOINED_ARGUMENTS,
    JOINED_BYTES,
    JOINED_ROWS,
    JOINED_THREADS,
)


def with_joined_launches(code: Code) -> Code:
    """Return a program in which small independent kernels share launches."""
    joiner = _Joiner(code)
    for thunk in code.thunks:
        joiner.add(thunk)
    return dataclasses.replace(
        code, thunks=joiner.thunks, origins=joiner.origins, joined=joiner.joined
    )


@dataclasses.dataclass(slots=True)
class _Access:
    """Values that thunks read and write."""

    read: set[Value]
    written: set[Value]

    @classmethod
    def of(cls, thunk: Thunk) -> "_Access":
        return cls(set(reads(thunk)), set(writes(thunk)))

    def add(self, other: "_Access") -> None:
        self.read |= other.read
        self.written |= other.written

    def is_apart(self, other: "_Access") -> bool:
        """Return whether two accesses are independent: in any order, or at the same time."""
        return (
            self.written.isdisjoint(other.written)
            and self.written.isdisjoint(other.read)
            and self.read.isdisjoint(other.written)
        )


class _Joiner:
    """Reorders thunks, with the same results, to join launches."""

    def __init__(self, code: Code) -> None:
        self.thunks: list[Thunk] = []
        self.origins = dict(code.origins)
        self.joined: dict[Thunk, tuple[KernelThunk, ...]] = {}
        self._begin = 0
        """Number of the first thunk that a kernel may be moved past."""

    def add(self, thunk: Thunk) -> None:
        """Add a thunk, or join it to an earlier launch."""
        if not _is_passed(thunk):
            self.thunks.append(thunk)
            self._begin = len(self.thunks)
            return
        if isinstance(thunk, KernelThunk) and self._is_small(thunk):
            for number, position in self._partners(thunk):
                other = self.thunks[number]
                assert isinstance(other, KernelThunk)
                both = self._both(other, thunk)
                if both is not None:
                    self.thunks.insert(position, both)
                    del self.thunks[number]
                    return
        self.thunks.append(thunk)

    def _partners(self, thunk: KernelThunk) -> Iterator[tuple[int, int]]:
        """Yield the numbers of small kernels before a thunk, and the position of a common launch.

        It is after the other kernel, or after the last thunk that this one depends on.
        """
        own, passed = _Access.of(thunk), _Access(set(), set())
        needed: int | None = None
        for number in reversed(
            range(max(self._begin, len(self.thunks) - JOINED_ROWS), len(self.thunks))
        ):
            other = self.thunks[number]
            access = _Access.of(other)
            if needed is None and not own.is_apart(access):
                needed = number
            elif isinstance(other, KernelThunk) and self._is_small(other) and own.is_apart(access):
                if needed is None:
                    yield number, number + 1
                elif access.is_apart(passed):
                    yield number, needed + 1
            if needed is not None:
                passed.add(access)

    def _is_small(self, thunk: KernelThunk) -> bool:
        """Return whether the kernels of a launch may share it with another."""
        return all(map(_is_small, self.joined.get(thunk, (thunk,))))

    def _both(self, first: KernelThunk, second: KernelThunk) -> KernelThunk | None:
        """Return the launch of two thunks; None if they cannot share one."""
        parts = (*self.joined.get(first, (first,)), *self.joined.get(second, (second,)))
        both = _launch(parts)
        if both is not None:
            self.joined.pop(first, None)
            self.joined[both] = parts
            if second in self.origins:
                self.origins[both] = self.origins[second]
        return both


def _is_passed(thunk: Thunk) -> bool:
    """Return whether kernels may be moved past a thunk: one that the device executes alone."""
    if isinstance(thunk, KernelThunk):
        return isinstance(thunk.kernel, GridKernel | LibraryPlan)
    return isinstance(thunk, CopyThunk)


def _is_small(thunk: KernelThunk) -> bool:
    grid = thunk.kernel
    if not isinstance(grid, GridKernel) or grid.blocks * grid.threads > JOINED_THREADS:
        return False
    return _bytes_of(thunk.arguments) <= JOINED_BYTES


def _bytes_of(values: Sequence[Value]) -> int:
    return sum(value.byte_size for value in values)


def _launch(parts: Sequence[KernelThunk]) -> KernelThunk | None:
    """Return the launch of several kernels; None if they cannot share one."""
    arguments = tuple(dict.fromkeys(value for part in parts for value in part.arguments))
    if len(arguments) > JOINED_ARGUMENTS:
        return None
    number_of = {value: number for number, value in enumerate(arguments)}
    grids = [part.kernel for part in parts if isinstance(part.kernel, GridKernel)]
    numbers = [[number_of[value] for value in part.arguments] for part in parts]
    grid = joined_grid(grids, numbers)
    if grid is None or grid.blocks * grid.threads > JOINED_THREADS:
        return None
    # Another kernel may read after one has written.
    pairs = tuple(
        (written, read)
        for part in parts
        for written, read in part.in_place
        if not any(read in reads(other) for other in parts if other is not part)
    )
    name = "+".join(part.name for part in parts)
    updates = tuple(value for part in parts for value in part.updates)
    return kernel_thunk(
        name,
        grid.kernel,
        arguments,
        in_place=pairs,
        updates=updates,
        launched=lambda simplified: fitting_bits(dataclasses.replace(grid, kernel=simplified)),
    )
