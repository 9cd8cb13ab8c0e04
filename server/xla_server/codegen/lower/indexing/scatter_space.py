"""Index space of a scatter, and its division into work items.

Updates of the same position are combined in the order of their elements. A work item is one of:

- A range of a dimension that no index applies to: an update stays within its range.
- A block of the updates, if no two of them have the same position.
- A range of the result: it goes through all indices and applies those of its own, in order.
"""

import dataclasses
import math
from typing import TypeAlias

from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_contract.types.shape import Shape
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.target.kernel_tuning import Scatters

UPDATE_WORK = 2 * CostClass.ACCESS
"""Cost of a plain update, in additions: a load and a store at an index."""


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateBlocks:
    """Each work item updates `size` neighbours along an update dimension of `length`."""

    dimension: int
    size: int
    length: int

    @property
    def work_items(self) -> int:
        """The number of work items."""
        return -(-self.length // self.size)


@dataclasses.dataclass(frozen=True, slots=True)
class Ranges:
    """Each work item owns every `work_items`-th piece of 2**`shift` along a result dimension.

    Pieces are interleaved, as frequent indices are often adjacent. The number of work items is a
    power of two.
    """

    dimension: int
    work_items: int
    shift: int


Division: TypeAlias = UpdateBlocks | Ranges | None
"""The division of a scatter into work items; None for one work item."""


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """Mapping of updates to the input: the update dimensions that count each input dimension.

    `window` and `batch` give the update dimension, -1 for none, that counts positions in the window
    and along a batching dimension; `scattered` is the number of the index, -1 for none. `sizes` are
    the input's and `updates` the updates'; `batch_dims` of these count index vectors.
    """

    sizes: tuple[int, ...]
    updates: tuple[int, ...]
    batch_dims: tuple[int, ...]
    window: tuple[int, ...]
    batch: tuple[int, ...]
    scattered: tuple[int, ...]

    @staticmethod
    def of(numbers: ScatterDimensionNumbers, operand: Shape, updates: Shape) -> "Space":
        """The space of a scatter's dimension numbers."""
        dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
        batch_dims = tuple(n for n in range(updates.rank) if n not in numbers.update_window_dims)
        inner = iter(numbers.update_window_dims)
        dimensions = range(operand.rank)
        window = tuple(-1 if d in dropped else next(inner) for d in dimensions)
        pairs = dict(
            zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
        )
        batch = tuple(
            batch_dims[pairs[d] - (numbers.index_vector_dim < pairs[d])] if d in pairs else -1
            for d in dimensions
        )
        order = numbers.scatter_dims_to_operand_dims
        scattered = tuple(order.index(d) if d in order else -1 for d in dimensions)
        sizes = operand.dimensions
        return Space(sizes, updates.dimensions, batch_dims, window, batch, scattered)._merged()

    def _merged(self) -> "Space":
        """Return the space with neighbouring dimensions of a window merged into one.

        Two dimensions merge if no index applies to either and the window has the whole inner one:
        then their elements are contiguous in the input and in the updates.
        """
        space = self
        while (d := space._contiguous()) is not None:
            space = space._merge(d)
        return space

    def _contiguous(self) -> int | None:
        """Return the first dimension that merges with the next one; None if there is none."""
        for d in range(len(self.sizes) - 1):
            outer, inner = self.window[d : d + 2]
            is_free = self.scattered[d] < 0 and self.scattered[d + 1] < 0
            if is_free and 0 <= outer == inner - 1 and self.updates[inner] == self.sizes[d + 1]:
                return d
        return None

    def _merge(self, d: int) -> "Space":
        """Merge dimension `d` of the input with the next one, and those of the updates."""
        outer = self.window[d]

        def renumbered(axes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(axis - (axis > outer) for axis in axes)

        return Space(
            _product_at(self.sizes, d),
            _product_at(self.updates, outer),
            renumbered(self.batch_dims),
            renumbered(self.window[: d + 1] + self.window[d + 2 :]),
            renumbered(self.batch[: d + 1] + self.batch[d + 2 :]),
            self.scattered[: d + 1] + self.scattered[d + 2 :],
        )

    @property
    def vectors(self) -> int:
        """The number of index vectors."""
        return math.prod(self.updates[d] for d in self.batch_dims)

    @property
    def window_dims(self) -> tuple[int, ...]:
        """The update dimensions of a window, in order."""
        return tuple(d for d in range(len(self.updates)) if d not in self.batch_dims)

    @property
    def window_elements(self) -> int:
        """The updates of one index vector."""
        return math.prod(self.updates[d] for d in self.window_dims)

    def extent(self, dimension: int) -> int:
        """The size of the window along a dimension of the input."""
        axis = self.window[dimension]
        return self.updates[axis] if axis >= 0 else 1

    def division(self, is_unique: bool, weight: int, width: int, tuned: Scatters) -> Division:
        """The division of the updates into work items.

        An update costs as much as `weight` plain ones; an element of the input has `width` bytes.
        """
        own = self._own(tuned)
        work = UPDATE_WORK * weight * math.prod(self.updates)
        if work < tuned.min_work:
            return own
        if is_unique or self.vectors == 1:
            return self._of_updates(-(-work // tuned.item_work))
        # Blocks are even for all indices; one of the ranges may have all the work.
        return own or self._of_result(weight, width, tuned)

    def _own(self, tuned: Scatters) -> UpdateBlocks | None:
        """The best blocks of a dimension that no index applies to."""
        own = {
            axis
            for d in range(len(self.sizes))
            for axis in (self.window[d], self.batch[d])
            if axis >= 0 and self.scattered[d] < 0
        }
        blocks = [
            UpdateBlocks(axis, self._block(axis, tuned), self.updates[axis]) for axis in sorted(own)
        ]
        best = max(blocks, key=lambda each: min(each.work_items, tuned.max_ranges), default=None)
        return best if best and best.work_items > 1 else None

    def _block(self, axis: int, tuned: Scatters) -> int:
        if axis < len(self.updates) - 1:
            return 1
        fewest, most = tuned.columns
        return max(fewest, min(most, self.updates[axis] // tuned.column_items))

    def _of_updates(self, work_items: int) -> UpdateBlocks:
        """Split the outermost update dimension that is long enough for `work_items`."""
        axis = max(range(len(self.updates)), key=lambda d: min(self.updates[d], work_items))
        size = self.updates[axis]
        return UpdateBlocks(axis, -(-size // work_items), size)

    def _of_result(self, weight: int, width: int, tuned: Scatters) -> Ranges | None:
        """Split a dimension along which the updates of one index vector have one position."""
        last = max(self.batch_dims, default=-1)
        for d in range(len(self.sizes)):
            if self.scattered[d] >= 0 and self.extent(d) > 1 and self.window[d] < last:
                # All vectors' first elements precede the second ones: not the order of vectors.
                return None
        each = weight * self.window_elements
        size = width * math.prod(self.sizes)
        if size <= tuned.cached_bytes and each < tuned.min_cached_updates:
            return None
        found = [
            d for d in range(len(self.sizes)) if self.scattered[d] >= 0 and self.extent(d) == 1
        ]
        if not found:
            return None
        chosen = max(found, key=lambda d: min(self.sizes[d], tuned.max_ranges))
        size, row = self.sizes[chosen], width * math.prod(self.sizes[chosen + 1 :])
        work_items = _power_of_two(min(1 + each // tuned.range_updates, size, tuned.max_ranges))
        work_items = max(work_items, min(size, 2))
        piece = _power_of_two(max(1, min(tuned.piece_bytes // row, size // (2 * work_items))))
        return Ranges(chosen, work_items, piece.bit_length() - 1) if work_items > 1 else None


def _product_at(sizes: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the sizes with those at `n` and n + 1 multiplied into one."""
    return (*sizes[:n], sizes[n] * sizes[n + 1], *sizes[n + 2 :])


def _power_of_two(number: int) -> int:
    """Return the largest power of two that is at most `number`."""
    return 1 << (number.bit_length() - 1)
