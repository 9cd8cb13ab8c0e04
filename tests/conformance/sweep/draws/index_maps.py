"""Valid dimension numbers of gathers and scatters, drawn for both: they mirror each other."""

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.conformance.sweep.draws import drawing
from xla_contract.types.element_type import ElementType


@dataclasses.dataclass(frozen=True)
class IndexMap:
    """Dimension numbers by which index vectors choose windows of an operand.

    `windows` is the shape of all windows together: a gather's result, a scatter's updates.
    """

    operand: tuple[int, ...]
    sizes: tuple[int, ...]
    """Sizes of one window, in every dimension of the operand."""
    dropped: tuple[int, ...]
    batching: tuple[int, ...]
    mapped: tuple[int, ...]
    indices_shape: tuple[int, ...]
    index_vector_dim: int
    indices_batching: tuple[int, ...]
    window_dims: tuple[int, ...]
    windows: tuple[int, ...]

    def indices(self, element_type: ElementType) -> st.SearchStrategy[Any]:
        """Index vectors inside, outside, negative, and at the ends of their type."""
        info = np.iinfo(element_type.dtype)  # type: ignore[arg-type]
        low, high = int(info.min), int(info.max)

        def values(seed: int) -> Any:
            random = np.random.default_rng(seed)
            near = random.integers(max(low, -3), 7, self.indices_shape)
            ends = np.array([low, low + 1, high - 1, high], info.dtype)
            far = random.choice(ends, self.indices_shape)
            is_far = random.random(self.indices_shape) < 0.1
            return np.where(is_far, far, near.astype(far.dtype))

        return drawing.seeds().map(values)

    def without_overlap(self, indices: Any) -> Any:
        """The indices, those of windows that meet an earlier one moved out of the operand."""
        implicit = self.index_vector_dim == indices.ndim
        moved = np.array(indices[..., None] if implicit else indices)
        vectors = np.moveaxis(moved, self.index_vector_dim, -1)
        taken: set[tuple[int, ...]] = set()
        for place in np.ndindex(vectors.shape[:-1]):
            window = self._window(vectors[place], place)
            if window & taken:
                vectors[place] = np.iinfo(indices.dtype).max
            else:
                taken |= window
        return moved.reshape(indices.shape)

    def _window(self, vector: Any, place: tuple[int, ...]) -> set[tuple[int, ...]]:
        """The elements that the window of an index vector covers; none where it does not fit."""
        starts = [0] * len(self.operand)
        for dimension, entry in zip(self.mapped, vector, strict=True):
            starts[dimension] = int(entry)
        for mine, theirs in zip(self.batching, self.indices_batching, strict=True):
            starts[mine] = place[theirs - (theirs > self.index_vector_dim)]
        boxes = zip(starts, self.operand, self.sizes, strict=True)
        if not all(0 <= start <= size - extent for start, size, extent in boxes):
            return set()
        return {
            tuple(s + o for s, o in zip(starts, offset, strict=True))
            for offset in np.ndindex(self.sizes)
        }


@st.composite
def index_maps(draw: Any, *, scatters: bool = False) -> IndexMap:
    """Any valid dimension numbers over an operand of rank 0 to 4.

    A gather drops no dimension of size 0: that leaves nothing to read. A scatter's index vector has
    an entry: XLA's simplifier makes wrong programs of those that have none.
    """
    operand = list(draw(drawing.dimensions(min_rank=int(scatters), max_size=4)))
    roles = [draw(st.sampled_from(["window", "dropped", "batching"])) for _ in operand]
    if scatters and set(roles) == {"batching"}:
        roles[0] = "dropped"
    sizes = []
    for number, role in enumerate(roles):
        if role == "dropped" and not scatters:
            operand[number] = max(operand[number], 1)
        whole = operand[number]
        near = st.integers(0, whole) | st.sampled_from([min(1, whole), whole])
        sizes.append(draw(near) if role == "window" else 1 if role == "dropped" else min(1, whole))
    dropped, batching = (
        tuple(number for number, role in enumerate(roles) if role == wanted)
        for wanted in ("dropped", "batching")
    )
    others = [number for number in range(len(operand)) if number not in batching]
    mapped = draw(st.permutations(others))[: draw(st.integers(int(scatters), len(others)))]
    batch = list(draw(drawing.dimensions(max_rank=2, max_size=3)))
    places = draw(st.permutations(range(len(batch) + len(batching))))[: len(batching)]
    for pair in sorted(zip(places, batching, strict=True)):
        batch.insert(pair[0], operand[pair[1]])
    implicit = len(mapped) == 1 and draw(st.booleans())
    vector_dim = len(batch) if implicit else draw(st.integers(0, len(batch)))
    indices = list(batch)
    if not implicit:
        indices.insert(vector_dim, len(mapped))
    kept = [size for size, role in zip(sizes, roles, strict=True) if role == "window"]
    order = draw(st.permutations(range(len(batch) + len(kept))))
    window_dims = tuple(sorted(order[: len(kept)]))
    windows = list(batch)
    for number, size in zip(window_dims, kept, strict=True):
        windows.insert(number, size)
    return IndexMap(
        operand=tuple(operand),
        sizes=tuple(sizes),
        dropped=dropped,
        batching=batching,
        mapped=tuple(mapped),
        indices_shape=tuple(indices),
        index_vector_dim=vector_dim,
        indices_batching=tuple(place + (place >= vector_dim) for place in places),
        window_dims=window_dims,
        windows=tuple(windows),
    )
