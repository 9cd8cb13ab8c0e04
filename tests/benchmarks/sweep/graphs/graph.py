"""The values of a random graph, and the choice of operands among them."""

import dataclasses
import math

from tests.benchmarks.sweep.draw import FLOATS, NAME, Draw
from tests.benchmarks.sweep.program import listed


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of a graph."""

    name: str
    shape: tuple[int, ...]


class Graph:
    """A graph being drawn: values with their shapes, and which of them nothing uses yet."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        steps = draw.integer(4, 40)
        # Forty calls on large arrays would take XLA longer than the benchmark allows.
        most = 2**22 if steps <= 10 else 2**20 if steps <= 25 else 2**19
        shape = matrix_shape(draw, most)
        self.limit = max(2 * math.prod(shape), 2**10)
        dtype = draw.choice(*FLOATS)
        self.values = [Value(draw.parameter(shape, dtype), shape) for _ in range(2)]
        self._unused: list[Value] = []
        self.steps = steps

    def add(self, text: str, shape: tuple[int, ...]) -> None:
        """Add a value; those that its text mentions count as used."""
        mentioned = set(NAME.findall(text))
        self._unused = [value for value in self._unused if value.name not in mentioned]
        value = Value(self._draw.let(text), shape)
        self.values.append(value)
        self._unused.append(value)

    def value(self, *, ranks: tuple[int, ...] = (0, 1, 2, 3)) -> Value | None:
        """Return an operand, more often a recent one."""
        suitable = [value for value in self.values if len(value.shape) in ranks]
        if not suitable:
            return None
        if self._draw.chance(0.3):
            # Else graphs end up in rows, columns and numbers.
            large = [value for value in suitable if math.prod(value.shape) >= self.limit // 8]
            suitable = large or suitable
        waiting = [value for value in self._unused if value in suitable]
        if waiting and self._draw.chance(0.6):
            return self._draw.choice(*waiting)
        recent = suitable[-5:] if self._draw.chance(0.6) else suitable
        return self._draw.choice(*recent)

    def result(self) -> str:
        """Return the text of the results: up to eight of the values that nothing uses."""
        return listed(*(value.name for value in self._unused[-8:]))


Made = tuple[str, tuple[int, ...]] | None


def matrix_shape(draw: Draw, most: int) -> tuple[int, int]:
    """Return the shape of a matrix: square, wide, tall, a row or a column."""
    elements = draw.size(2**8, most)
    form = draw.weighted(
        {"any": 5, "square": 3, "wide": 2, "tall": 2, "row": 1, "column": 1, "flat": 1, "thin": 1}
    )
    if form == "any":
        rows = draw.size(2, elements // 2)
    elif form == "square":
        rows = draw.size(max(1, math.isqrt(elements) * 3 // 4), math.isqrt(elements))
    else:
        rows = {
            "wide": draw.size(2, 16),
            "row": 1,
            "flat": 2,
            "tall": elements // draw.size(2, 16),
            "column": elements,
            "thin": elements // 2,
        }[form]
    return rows, max(1, elements // rows)


def broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of two operands together by NumPy's rule, None where they do not fit."""
    rank = max(len(one), len(other))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (one, other)]
    sizes = list(zip(*padded, strict=True))
    if any(a != b and 1 not in (a, b) for a, b in sizes):
        return None
    return tuple(max(a, b) for a, b in sizes)
