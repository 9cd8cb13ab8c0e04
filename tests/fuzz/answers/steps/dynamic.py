"""Programs of bounded dynamic sizes inside a call: their sizes, and sums of their elements.

They are compared between platforms of ours alone: results of jaxlib depend on its padding.
"""

import math
from collections.abc import Callable

import numpy as np

from tests.building import scalars
from tests.fuzz.answers.steps.graph import FreeGraph
from tests.property.random_programs.graphs import Graph, Node, Step
from xla_client import Builder, Computation, ops
from xla_client.programs.builder import Op
from xla_contract.errors import XlaError
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
)
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape

_KINDS = (E.S32, E.S8, E.U32, E.S64, E.U8, E.S16)
_MAX_ELEMENTS = 2048


class Inside:
    """A computation whose values have dynamic sizes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.chance = graph.chance
        self.builder = Builder(f"dynamic{next(graph.names)}")
        self.sizes: list[Op] = []
        self.values: list[Op] = []

    def constant(self, kind: E, value: int) -> Op:
        """Return a scalar constant."""
        return self.builder.constant(np.asarray(value).astype(kind.dtype))

    def combiner(self, kind: E) -> Computation:
        """Return a function that gives the same in any order."""
        function = self.chance.choice((ops.add, ops.max, ops.min, ops.xor))
        return scalars(function, kind, kind, name=f"combine{next(self.graph.names)}")

    def same(self, x: Op) -> Op:
        """Return a value of the same type and bounds."""
        shape = x.shape.element_type, x.shape.dimensions
        found = [v for v in self.values if (v.shape.element_type, v.shape.dimensions) == shape]
        return self.chance.choice(found)

    def any(self) -> Op:
        """Return one of the values, often the latest."""
        return self.values[-1] if self.chance.random() < 0.5 else self.chance.choice(self.values)

    def axis(self, x: Op) -> int:
        """Return one of the dimensions of a value."""
        return self.chance.randrange(x.shape.rank)


def _resized(g: Inside, x: Op) -> Op:
    axis, size = g.axis(x), g.chance.choice(g.sizes)
    if g.chance.random() < 0.95:
        size = ops.min(size, g.constant(E.S32, x.shape.dimensions[axis]))
    return ops.set_dimension_size(x, size, axis)


def _static(g: Inside, x: Op) -> Op:
    return ops.remove_dynamic_dimension(x, g.axis(x))


def _reduced(g: Inside, x: Op) -> Op:
    kind, rank = x.shape.element_type, x.shape.rank
    along = sorted(g.chance.sample(range(rank), g.chance.randint(0, rank - 1)))
    return ops.reduce(x, g.constant(kind, g.chance.randint(0, 3)), g.combiner(kind), along)


def _joined(g: Inside, x: Op) -> Op:
    axis = g.axis(x)
    return ops.concat_in_dim([x, g.same(x), x][: g.chance.randint(1, 3)], axis)


def _sorted(g: Inside, x: Op) -> Op:
    axis, other = g.axis(x), g.same(x)
    kind = x.shape.element_type
    before = g.chance.choice((ops.lt, ops.gt))
    if other is x or g.chance.random() < 0.4:
        compare = scalars(before, kind, kind, name=f"lt{next(g.graph.names)}")
        return ops.sort([x], compare, axis, True)
    compare = scalars(lambda a, b, *_: before(a, b), *[kind] * 4, name=f"l{next(g.graph.names)}")
    return ops.get_tuple_element(ops.sort([x, other], compare, axis, True), g.chance.randint(0, 1))


def _product(g: Inside, x: Op) -> Op:
    y, rank = g.same(x), x.shape.rank
    dims = g.chance.sample(range(rank), rank)
    cut = g.chance.randint(0, rank)
    batch = dims[: g.chance.randint(0, cut)]
    along = dims[cut:]
    return ops.dot_general(
        x, y, DotDimensionNumbers(tuple(along), tuple(along), tuple(batch), tuple(batch))
    )


def _padded(g: Inside, x: Op) -> Op:
    amounts = [
        PaddingDimension(g.chance.randint(-1, 2), g.chance.randint(-1, 2), g.chance.choice((0, 1)))
        for _ in range(x.shape.rank)
    ]
    return ops.pad(x, g.constant(x.shape.element_type, 1), PaddingConfig(tuple(amounts)))


def _reshaped(g: Inside, x: Op) -> Op:
    sizes = list(x.shape.dimensions)
    what = g.chance.randrange(3)
    if what == 0:
        sizes.insert(g.chance.randint(0, len(sizes)), 1)
    elif what == 1 and len(sizes) > 1:
        axis = g.chance.randrange(len(sizes) - 1)
        sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
    else:
        axis = g.axis(x)
        factors = [n for n in range(1, sizes[axis] + 1) if sizes[axis] % n == 0]
        factor = g.chance.choice(factors)
        sizes[axis : axis + 1] = [factor, sizes[axis] // factor]
    return ops.reshape(x, sizes)


def _looped(g: Inside, x: Op) -> Op:
    shapes = [Shape.scalar(E.S32), x.shape.without_layout(), Shape.scalar(E.S32)]
    state = Shape.tuple_of(shapes)
    test, step = (Builder(f"{name}{next(g.graph.names)}") for name in ("test", "step"))
    seen = test.parameter(0, state)
    condition = test.build(ops.lt(ops.get_tuple_element(seen, 0), g.chance.randint(0, 3)))
    old = step.parameter(0, state)
    count, value, size = (ops.get_tuple_element(old, n) for n in range(3))
    dynamic = [d for d in range(x.shape.rank) if x.shape.is_dynamic(d)]
    if dynamic and g.chance.random() < 0.6:
        axis = g.chance.choice(dynamic)
        bound = x.shape.dimensions[axis]
        after = ops.set_dimension_size(value, ops.rem(ops.add(size, count), bound + 1), axis)
    else:
        after = ops.add(value, ops.rev(value, [0]))
    body = step.build(ops.tuple([ops.add(count, 1), after, size]))
    size = ops.abs(g.chance.choice(g.sizes))
    loop = ops.while_(condition, body, ops.tuple([g.constant(E.S32, 0), x, size]))
    return ops.get_tuple_element(loop, 1)


def _branched(g: Inside, x: Op) -> Op:
    branches = []
    for function in (lambda v: v, ops.neg, lambda v: ops.rev(v, [0])):
        builder = Builder(f"branch{next(g.graph.names)}")
        branches.append(builder.build(function(builder.parameter(0, x.shape.without_layout()))))
    operands = [x, x, x]
    return ops.conditional(g.chance.choice(g.sizes), branches, operands)


def _counted(g: Inside, x: Op) -> Op:
    size = ops.get_dimension_size(x, g.axis(x))
    return ops.add(x, ops.convert_element_type(size, x.shape.element_type))


_FORMS: tuple[Callable[[Inside, Op], Op], ...] = (
    _resized,
    _resized,
    _static,
    _reduced,
    _joined,
    _sorted,
    _product,
    _padded,
    _reshaped,
    _looped,
    _branched,
    _counted,
    lambda g, x: ops.add(x, g.same(x)),
    lambda g, x: ops.select(ops.lt(x, g.same(x)), x, g.same(x)),
    lambda g, x: ops.clamp(g.same(x), x, g.same(x)),
    lambda g, x: ops.rev(x, [g.axis(x)]),
    lambda g, x: ops.transpose(x, g.chance.sample(range(x.shape.rank), x.shape.rank)),
    lambda g, x: ops.broadcast(x, [2]),
    lambda g, x: ops.convert_element_type(x, g.chance.choice(_KINDS)),
    lambda g, x: ops.optimization_barrier(x),
)


def dynamic_program(graph: Graph) -> Node | None:
    """A call of operations on values of dynamic sizes."""
    assert isinstance(graph, FreeGraph)
    if graph.is_for_jaxlib:
        return None
    chance, inside = graph.chance, Inside(graph)
    kind = chance.choice(_KINDS)
    bounds = [chance.randint(1, 6) for _ in range(chance.randint(1, 3))]
    counts = [chance.randint(0, 6) for _ in range(chance.randint(1, 3))]
    operands = [graph.shaped(kind, bounds), graph.shaped(E.S32, (bounds[0],))]
    builder = inside.builder
    inside.values = [
        builder.parameter(n, node.op.shape.without_layout()) for n, node in enumerate(operands)
    ]
    inside.values.reverse()
    inside.sizes = [builder.parameter(2 + n, Shape.scalar(E.S32)) for n in range(len(counts))]
    inside.values.append(_resized(inside, inside.values[-1]))
    inside.values.append(_resized(inside, inside.values[0]))
    for _ in range(chance.randint(1, 8)):
        try:
            found = chance.choice(_FORMS)(inside, inside.any())
        except (XlaError, IndexError):
            continue
        if found.shape.rank and math.prod(found.shape.dimensions) <= _MAX_ELEMENTS:
            inside.values.append(found)
    results = []
    for value in inside.values[-4:]:
        sizes = [ops.get_dimension_size(value, d) for d in range(value.shape.rank)]
        kind = value.shape.element_type
        places = builder.iota(Shape.array(kind, value.shape.dimensions), inside.axis(value))
        every = list(range(value.shape.rank))
        start = inside.constant(kind, 0)
        total = scalars(ops.add, kind, kind, name=f"add{next(graph.names)}")
        weighted = ops.mul(value, ops.add(places, inside.constant(kind, 3)))
        results += [*sizes, ops.reduce(weighted, start, total, every)]
    # An operation that jaxlib does not have.
    results.append(ops.mulhi(inside.sizes[0], results[-2]))
    given = [node.op for node in operands]
    given += [graph.scalar(E.S32, count) for count in counts]
    found = ops.call(builder.build(ops.tuple(results)), given)
    parts = [Node(ops.get_tuple_element(found, n)) for n in range(len(results))]
    graph.nodes += parts[:-1]
    return parts[-1]


STEPS: tuple[Step, ...] = (dynamic_program,) * 3
