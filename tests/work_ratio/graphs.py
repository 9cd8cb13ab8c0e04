"""Random graphs of array operations, drawn from a seed, that are compiled and never run.

Sizes are 2^6 to 2^24 elements and ranks 0 to 5, with single rows, single columns and primes among
them. Values are read several times, by elementwise operations, reductions, broadcasts of their
results, and operations that read elements elsewhere.
"""

import math
import random
from collections.abc import Callable, Sequence

from xla_client import Builder, Op, ops
from xla_client.lib import activations, arithmetic
from xla_contract.stubs import hlo_pb2
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape

SMALLEST, LARGEST = 6, 24
"""Powers of two that parameters have elements between; twice the larger is the most of a value."""

RANKS = (0, 1, 2, 2, 2, 3, 4, 5)
STEPS = (4, 40)
TYPES = (ElementType.F32,) * 6 + (ElementType.F64, ElementType.BF16)

_UNARY: tuple[Callable[[Op], Op], ...] = (
    ops.abs,
    ops.neg,
    ops.exp,
    ops.tanh,
    ops.floor,
    ops.sin,
    ops.logistic,
    ops.sign,
    lambda x: ops.log1p(ops.abs(x)),
    lambda x: ops.sqrt(ops.abs(x)),
)
_BINARY: tuple[Callable[[Op, Op], Op], ...] = (
    ops.add,
    ops.sub,
    ops.mul,
    ops.max,
    ops.min,
    ops.atan2,
    lambda x, y: ops.div(x, ops.exp(y)),
    lambda x, y: ops.select(ops.gt(x, y), x, y),
)
_REDUCTIONS = (arithmetic.sum, arithmetic.max, arithmetic.min, arithmetic.mean)


class Graph:
    """A random computation while it is built; all values have one element type."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.builder = Builder(f"graph_{seed}")
        self.element_type = self.chance.choice(TYPES)
        sizes = self._sizes()
        self.values = [
            self.builder.parameter(n, Shape.array(self.element_type, sizes), f"x{n}")
            for n in range(2)
        ]

    def _sizes(self) -> tuple[int, ...]:
        """Return sizes whose product is of a random magnitude."""
        chance = self.chance
        rank = chance.choice(RANKS)
        elements = 2 ** chance.uniform(SMALLEST, LARGEST)
        weights = [chance.choice((0.0, 0.1, 1.0, 1.0, 1.0)) for _ in range(rank)]
        total = sum(weights) or 1.0
        sizes = [math.floor(elements ** (weight / total)) for weight in weights]
        return tuple(_next_prime(size) if chance.random() < 0.3 else size for size in sizes)

    def pick(self) -> Op:
        """Return a value, a late one more likely than an early one."""
        place = max(self.chance.random(), self.chance.random())
        return self.values[int(place * len(self.values))]

    def pick_like(self, value: Op) -> Op:
        """Return a value of the same shape, which may be the same one."""
        fitting = [other for other in self.values if _sizes_of(other) == _sizes_of(value)]
        return self.chance.choice(fitting)

    def add(self, value: Op) -> None:
        """Keep a value unless it is empty, too large or of too many dimensions."""
        if 0 < value.shape.element_count <= 2 << LARGEST and value.shape.rank <= max(RANKS):
            self.values.append(value)


def _sizes_of(value: Op) -> tuple[int, ...]:
    return value.shape.dimensions


def _next_prime(size: int) -> int:
    while size > 2 and any(size % k == 0 for k in range(2, math.isqrt(size) + 1)):
        size += 1
    return size


def _unary(g: Graph) -> Op:
    return g.chance.choice(_UNARY)(g.pick())


def _binary(g: Graph) -> Op:
    value = g.pick()
    return g.chance.choice(_BINARY)(value, g.pick_like(value))


def _some(g: Graph, rank: int) -> list[int]:
    """Return some dimensions, at least one, in order."""
    return sorted(g.chance.sample(range(rank), g.chance.randint(1, rank)))


def _reduction(g: Graph) -> Op:
    value = g.pick()
    rank = value.shape.rank
    dimensions = _some(g, rank) if rank else []
    if rank and g.chance.random() < 0.5:
        # Rows are reduced most often.
        dimensions = list(range(g.chance.randrange(rank), rank))
    reduced = g.chance.choice(_REDUCTIONS)(value, dimensions)
    if g.chance.random() < 0.4:
        return reduced
    kept = [d for d in range(rank) if d not in dimensions]
    spread = ops.broadcast_in_dim(reduced, _sizes_of(value), kept)
    return g.chance.choice(_BINARY)(value, spread)


def _normalisation(g: Graph) -> Op:
    value = g.pick()
    if not value.shape.rank:
        return ops.exp(value)
    function = g.chance.choice((activations.softmax, activations.log_softmax))
    return function(value, g.chance.randrange(value.shape.rank))


def _spread(g: Graph) -> Op:
    """Apply a scalar, or a value of fewer dimensions, to all elements of another."""
    value = g.pick()
    small = [v for v in g.values if _is_prefix(_sizes_of(v), _sizes_of(value))]
    if not small:
        return ops.neg(value)
    chosen = g.chance.choice(small)
    dimensions = list(range(chosen.shape.rank))
    return ops.mul(value, ops.broadcast_in_dim(chosen, _sizes_of(value), dimensions))


def _is_prefix(small: Sequence[int], large: Sequence[int]) -> bool:
    return len(small) < len(large) and tuple(large[: len(small)]) == tuple(small)


def _reshape(g: Graph) -> Op:
    value = g.pick()
    sizes = list(_sizes_of(value))
    if len(sizes) > 1 and g.chance.random() < 0.5:
        at = g.chance.randrange(len(sizes) - 1)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        return ops.reshape(value, sizes)
    g.chance.shuffle(sizes)
    return ops.reshape(value, sizes)


def _transpose(g: Graph) -> Op:
    value = g.pick()
    return ops.transpose(value, g.chance.sample(range(value.shape.rank), value.shape.rank))


def _reverse(g: Graph) -> Op:
    value = g.pick()
    return ops.rev(value, _some(g, value.shape.rank)) if value.shape.rank else ops.abs(value)


def _slice(g: Graph) -> Op:
    value = g.pick()
    starts, limits, strides = [], [], []
    for size in _sizes_of(value):
        start = g.chance.randrange(min(size, 4))
        starts.append(start)
        limits.append(size - g.chance.randrange(min(size - start, 4)))
        strides.append(g.chance.choice((1, 1, 1, 2)))
    return ops.slice(value, starts, limits, strides)


def _neighbours(g: Graph) -> Op:
    """Combine a value with itself moved along a dimension."""
    value = g.pick()
    sizes = _sizes_of(value)
    if not sizes or sizes[-1] < 3:
        return ops.neg(value)
    end = sizes[-1]
    parts = [ops.slice_in_dim(value, n, end - 2 + n, 1, len(sizes) - 1) for n in range(3)]
    return ops.add(ops.add(parts[0], parts[1]), parts[2])


def _pad(g: Graph) -> Op:
    value = g.pick()
    edges = (
        PaddingDimension(g.chance.randrange(3), g.chance.randrange(3)) for _ in _sizes_of(value)
    )
    zero = g.builder.constant(g.element_type.dtype.type(0))
    return ops.pad(value, zero, PaddingConfig(tuple(edges)))


def _concatenate(g: Graph) -> Op:
    value = g.pick()
    if not value.shape.rank:
        return ops.neg(value)
    parts = [value, *(g.pick_like(value) for _ in range(g.chance.randint(1, 5)))]
    return ops.concat_in_dim(parts, g.chance.randrange(value.shape.rank))


def _stack(g: Graph) -> Op:
    value = g.pick()
    axis = g.chance.randint(0, value.shape.rank)
    sizes = [*_sizes_of(value)]
    sizes.insert(axis, 1)
    parts = [value, *(g.pick_like(value) for _ in range(g.chance.randint(1, 3)))]
    return ops.concat_in_dim([ops.reshape(part, sizes) for part in parts], axis)


_STEPS: dict[Callable[[Graph], Op], int] = {
    _unary: 20,
    _binary: 26,
    _reduction: 18,
    _normalisation: 5,
    _spread: 5,
    _reshape: 5,
    _transpose: 5,
    _reverse: 3,
    _slice: 4,
    _neighbours: 3,
    _pad: 2,
    _concatenate: 4,
    _stack: 3,
}


def graph(seed: int) -> hlo_pb2.HloModuleProto:
    """Return the module of the graph that a seed gives."""
    drawn = Graph(seed)
    chance = drawn.chance
    for _ in range(chance.randint(*STEPS)):
        (step,) = chance.choices(list(_STEPS), list(_STEPS.values()))
        drawn.add(step(drawn))
    results = drawn.values[-chance.randint(1, 8) :]
    return drawn.builder.build(ops.tuple(results)).proto
