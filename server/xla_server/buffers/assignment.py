"""Buffer assignment: the memory of each value in a parameter, constant, result or arena.

The source and target of a copy share memory unless they interfere, and the copy is removed. Values
that are no parameter, constant or result get offsets in the arena, large ones first, so that values
live at the same time do not overlap.
"""

import dataclasses
from bisect import bisect_right

from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.shape import Shape
from xla_server.buffers.arena import ArenaAllocator
from xla_server.buffers.code import Code, CopyThunk, KernelThunk, Value
from xla_server.buffers.liveness import Liveness, analyse, separate

ALIGNMENT = 64
"""Alignment of buffers, in bytes: a cache line, and the widest vector."""


@dataclasses.dataclass(frozen=True, slots=True)
class Location:
    """The memory of a value. `kind` is parameter, constant, result or arena.

    `number` is the index of the parameter, constant or result; in the arena, the offset in bytes.
    """

    kind: str
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """The memory of every value and result, and the size of the arena in bytes.

    A result with a parameter's or constant's location shares that memory. If the parameter was
    donated, the program may have written the result to it.
    """

    locations: dict[Value, Location]
    arena_bytes: int
    results: tuple[Location, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes that an execution needs, by purpose. Known at compile time.

    `results` counts results with memory of their own, not those that share a parameter's or
    constant's. `copies` counts copies of arguments whose layout differs from the program's.
    """

    parameters: int
    constants: int
    results: int
    arena: int
    copies: int = 0

    def __str__(self) -> str:
        parts = {
            "arguments": self.parameters,
            "copies of arguments": self.copies,
            "constants": self.constants,
            "temporary values": self.arena,
            "results": self.results,
        }
        listed = ", ".join(f"{size} of {what}" for what, size in parts.items())
        return f"{self.peak} bytes at once: {listed}"

    @property
    def peak(self) -> int:
        """Bytes that are allocated at the same time while the program runs, arguments included."""
        return self.parameters + self.added

    @property
    def added(self) -> int:
        """Bytes of the peak without the arguments, which are allocated before the run."""
        return self.copies + self.constants + self.results + self.arena


def require_fit(use: MemoryUse, max_bytes: int | None) -> None:
    """Raise ResourceExhaustedError, with all figures, above `max_bytes`; None is no limit."""
    if max_bytes is not None and use.peak > max_bytes:
        raise ResourceExhaustedError(
            f"an execution must fit into the device's {max_bytes} bytes of memory, got {use}"
        )


def memory_use(code: Code, assignment: Assignment) -> MemoryUse:
    """Return the bytes that an execution of the code needs with this assignment."""
    own = {location.number for location in assignment.results if location.kind == "result"}
    return MemoryUse(
        sum(value.byte_size for value in code.parameters),
        sum(value.byte_size for value in code.constants),
        sum(code.results[number].byte_size for number in own),
        assignment.arena_bytes,
    )


def assign(code: Code, donated: frozenset[int] = frozenset()) -> Assignment:
    """Assign memory to every value of the code.

    `donated` are numbers of parameters whose memory the caller gives up: it is reused like that of
    any other value, and results of the same shape are placed there unless they interfere.
    """
    liveness = analyse(code)
    groups = _Groups(liveness)
    numbers = liveness.numbers
    given = [value for n, value in enumerate(code.parameters) if n in donated]
    # Constants, and parameters that are not donated, are read-only: no other value joins them.
    fixed = {numbers[value] for value in (*code.parameters, *code.constants)}
    fixed -= {numbers[value] for value in given}
    pairs = _pairs(code)
    for target, source in pairs:
        a, b = groups.of(numbers[target]), groups.of(numbers[source])
        if a not in fixed and b not in fixed and target.byte_size == source.byte_size:
            groups.join(a, b)
    # Pairs that were not joined must not overlap at all: different addresses would corrupt them.
    for target, source in pairs:
        a, b = groups.of(numbers[target]), groups.of(numbers[source])
        if a != b:
            separate(liveness.apart, a, b)
    _replace(code, given, numbers, groups)
    locations: dict[int, Location] = {}
    for kind, values in (("parameter", code.parameters), ("constant", code.constants)):
        for number, value in enumerate(values):
            locations[groups.of(numbers[value])] = Location(kind, number)
    roots = [groups.of(numbers[value]) for value in code.results]
    results = [locations.setdefault(root, Location("result", n)) for n, root in enumerate(roots)]
    sizes: dict[int, int] = {}
    for value, number in numbers.items():
        root = groups.of(number)
        sizes[root] = max(sizes.get(root, 0), value.byte_size)
    waiting = [root for root in sizes if root not in locations]
    arena = _allocate_arena(waiting, sizes, groups, locations)
    return Assignment(
        {value: locations[groups.of(n)] for value, n in numbers.items()},
        arena,
        tuple(results),
    )


def _pairs(code: Code) -> list[tuple[Value, Value]]:
    """Return pairs of values for which sharing saves a copy or memory, largest copies first."""
    copies = [(thunk.target, thunk.source) for thunk in code.thunks if isinstance(thunk, CopyThunk)]
    copies.sort(key=lambda pair: -pair[0].byte_size)
    in_place = [
        pair for thunk in code.thunks if isinstance(thunk, KernelThunk) for pair in thunk.in_place
    ]
    return copies + in_place


def _replace(code: Code, given: list[Value], numbers: dict[Value, int], groups: "_Groups") -> None:
    """Assign results without memory to donated parameters of their shape, one to each."""
    taken = {groups.of(numbers[value]) for value in code.results}
    # A shape's homes, with the end of the first interval of the lifetime, and their order.
    free: dict[Shape, list[tuple[int, int, int]]] = {}
    homes = set()
    for order, value in enumerate(given):
        home = groups.of(numbers[value])
        homes.add(home)
        if home not in taken:
            _, end = next(iter(groups.lifetimes[home]))
            free.setdefault(value.shape, []).append((end, -order, home))
    for candidates in free.values():
        candidates.sort()
    for value in code.results:
        root = groups.of(numbers[value])
        if root in homes:
            continue
        begin, _ = next(iter(groups.lifetimes[root]))
        candidates = free.get(value.shape, [])
        # The last to end is of use to the fewest results.
        for at in reversed(range(bisect_right(candidates, (begin, 1)))):
            if groups.join(candidates[at][-1], root):
                del candidates[at]
                break


class _Groups:
    """Disjoint sets (union-find) of values that share memory, and each set's lifetime."""

    def __init__(self, liveness: Liveness) -> None:
        self.lifetimes, self._apart = liveness.lifetimes, liveness.apart
        self._parent = list(range(len(liveness.numbers)))

    def of(self, number: int) -> int:
        """Return the root of the value's group, the number that represents it."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def apart(self, root: int) -> set[int]:
        """Return the roots of groups that conflict with a group whatever their lifetimes."""
        return {self.of(number) for number in self._apart.get(root, ())}

    def join(self, a: int, b: int) -> bool:
        """Merge two groups and return True, unless members of them conflict."""
        if a == b:
            return True
        few, many = sorted((self.lifetimes[a], self.lifetimes[b]), key=len)
        if any(many.overlaps(*interval) for interval in few):
            return False
        few_apart, others = sorted((self._apart.get(root, set()) for root in (a, b)), key=len)
        if any(self.of(number) in (a, b) for number in few_apart):
            return False
        self._parent[b] = a
        for interval in few:
            many.add(*interval)
        others |= few_apart
        self.lifetimes[a], self._apart[a] = many, others
        return True


def _allocate_arena(
    waiting: list[int], sizes: dict[int, int], groups: _Groups, locations: dict[int, Location]
) -> int:
    """Assign each group the lowest free offset of the arena, large ones first.

    Returns the size of the arena in bytes.
    """
    spans: dict[int, tuple[int, int]] = {}
    arena = ArenaAllocator(
        max((end for root in waiting for _, end in groups.lifetimes[root]), default=0)
    )
    for root in sorted(waiting, key=lambda number: -sizes[number]):
        size = -(-sizes[root] // ALIGNMENT) * ALIGNMENT
        neighbours = [spans[other] for other in groups.apart(root) if other in spans]
        spans[root] = arena.allocate(size, groups.lifetimes[root], neighbours)
    locations.update((root, Location("arena", begin)) for root, (begin, _) in spans.items())
    return max((end for _, end in spans.values()), default=0)
