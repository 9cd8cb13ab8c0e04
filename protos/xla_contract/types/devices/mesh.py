"""Meshes: devices as a grid with named axes, and the parts of axes that split a value.

Semantics: XLA's MeshProto and Shardy's meshes; a part of an axis is `"x":(before)size` there.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.replica_groups import braced

MAX_PARTICIPANTS = 2**20
"""Most ids of a mesh: a compact form may state more than memory holds; no machine has as many."""


@dataclasses.dataclass(frozen=True, slots=True)
class AxisPart:
    """A factor of the mesh axis number `axis`: `size` after a more major factor of `before`.

    `size` None is the whole axis.
    """

    axis: int
    before: int = 1
    size: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Mesh:
    """Axes from the most major to the most minor, and the devices of the grid, row-major.

    No `devices` means 0, 1, 2 and so on. Raises InvalidArgumentError unless the axes multiply to 1
    to MAX_PARTICIPANTS, and to the number of devices.
    """

    sizes: tuple[int, ...]
    names: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= participants(self.sizes) <= MAX_PARTICIPANTS:
            raise InvalidArgumentError(
                f"a mesh must have axes of at least 1 and 1 to {MAX_PARTICIPANTS} devices, got "
                f"{braced(self.sizes)}"
            )
        if self.devices and len(self.devices) != self.size:
            raise InvalidArgumentError(
                f"a mesh must have one device per position, got {len(self.devices)} for {self.size}"
            )

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes)

    def extent(self, parts: Sequence[AxisPart]) -> int:
        """The number of devices along all of `parts` together."""
        return math.prod(part.size or self.sizes[part.axis] for part in parts)

    def along(self, parts: Sequence[AxisPart]) -> NDArray[np.int64]:
        """Return the devices as a table: rows along the other axes, columns along `parts`.

        The first part varies slowest in a row. Raises InvalidArgumentError for parts of axes that
        the mesh does not have, that do not divide their axis, or that overlap.
        """
        factors, places = self._split([self._checked(part) for part in parts])
        named = set(places)
        others = [number for number in range(len(factors)) if number not in named]
        order = np.array(self.devices or range(self.size), np.int64)
        moved = transposed(order, factors, [*others, *places])
        return moved.reshape(-1, math.prod(factors[place] for place in places))

    def _checked(self, part: AxisPart) -> tuple[int, int, int]:
        number, before = part.axis, part.before
        if not 0 <= number < len(self.sizes):
            raise InvalidArgumentError(
                f"mesh axes must be in range [0, {len(self.sizes)}), got {number} for a mesh of "
                f"{braced(self.sizes)}"
            )
        size = self.sizes[number] if part.size is None else part.size
        if before < 1 or size < 1 or self.sizes[number] % (before * size):
            raise InvalidArgumentError(
                f"a part of a mesh axis must divide it, got ({before}){size} of axis {number} with "
                f"size {self.sizes[number]}"
            )
        return number, before, size

    def _split(self, parts: Sequence[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
        """The sizes of the mesh with the parts as axes of their own, and where each part is."""
        factors: list[int] = []
        places: dict[int, int] = {}
        by_axis: dict[int, list[int]] = {}
        for index in sorted(range(len(parts)), key=lambda index: parts[index][1]):
            by_axis.setdefault(parts[index][0], []).append(index)
        for number, size in enumerate(self.sizes):
            done = 1
            for index in by_axis.get(number, ()):
                _, before, length = parts[index]
                if before % done:
                    raise InvalidArgumentError(
                        f"the parts of a mesh axis must not overlap, got ({before}){length} of "
                        f"axis {number} after its first {done}"
                    )
                factors.append(before // done)
                places[index] = len(factors)
                factors.append(length)
                done = before * length
            factors.append(size // done)
        return factors, [places[index] for index in range(len(parts))]


def participants(sizes: Iterable[int]) -> int:
    """The product of sizes; 0 for one below 1, and above MAX_PARTICIPANTS some number above it."""
    count = 1
    for size in sizes:
        # A product of thousands of sizes is a number of thousands of digits.
        if size < 1 or count > MAX_PARTICIPANTS:
            return 0 if size < 1 else count
        count *= size
    return count


def iota(dimensions: Sequence[int], permutation: Sequence[int], count: int) -> NDArray[np.int64]:
    """Return the numbers below `count` reshaped to `dimensions`, transposed, and flat again.

    No dimensions and no permutation change nothing.

    Raises:
        InvalidArgumentError: The dimensions hold another number, or the permutation is none.
    """
    sizes = list(dimensions) or [count]
    order = list(permutation) or list(range(len(sizes)))
    if participants(sizes) != count:
        raise InvalidArgumentError(
            f"an iota must be reshaped to its {count} ids, got {braced(sizes)}"
        )
    if sorted(order) != list(range(len(sizes))):
        raise InvalidArgumentError(
            f"an iota must be transposed by a permutation, got {braced(order)} for {braced(sizes)}"
        )
    return transposed(np.arange(count), sizes, order)


def transposed(
    numbers: NDArray[np.int64], sizes: Sequence[int], order: Sequence[int]
) -> NDArray[np.int64]:
    """The flat numbers reshaped to `sizes`, transposed, and flat again."""
    # numpy stops at 64 dimensions; those of size 1 do not move anything.
    kept = {number: place for place, number in enumerate(n for n, s in enumerate(sizes) if s > 1)}
    moved = [kept[number] for number in order if number in kept]
    return numbers.reshape([sizes[number] for number in kept]).transpose(moved).reshape(-1)
