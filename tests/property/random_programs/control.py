"""Loops, branches and calls of random programs, whose bodies are random graphs themselves."""

import math
from collections.abc import Sequence

from tests.property.random_programs import inexact, steps
from tests.property.random_programs.graphs import KINDS, Graph, Node, Step
from xla_client import Computation, ops
from xla_client.programs.builder import Op
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape

DEEPEST = 2
"""Computations inside computations."""

_STATE_SIZES = 256


def while_(graph: Graph) -> Node | None:
    """Add a loop of up to four iterations over a counter and two arrays; the second may be
    invariant.
    """
    if graph.depth >= DEEPEST:
        return None
    state = [_small(graph), _small(graph)]
    counter = graph.scalar(E.S32, graph.chance.randint(-1, 1))
    shapes = [Shape.array(E.S32, ()), *(node.op.shape.without_layout() for node in state)]
    body = graph.nested()
    old = body.builder.parameter(0, Shape.tuple_of(shapes))
    parts = [ops.get_tuple_element(old, n) for n in range(3)]
    body.nodes += map(Node, parts)
    body.grow(STEPS, graph.chance.randint(1, 4))
    new = [body.fitted(body.any(), node.kind, node.sizes).op for node in state]
    if graph.chance.random() < 0.4:
        new[1] = parts[2]
    step = ops.add(parts[0], body.scalar(E.S32, 1))
    condition = graph.nested()
    seen = condition.builder.parameter(0, Shape.tuple_of(shapes))
    limit = condition.scalar(E.S32, graph.chance.randint(0, 3))
    goes_on = ops.lt(ops.get_tuple_element(seen, 0), limit)
    loop = ops.while_(
        condition.builder.build(goes_on),
        body.builder.build(ops.tuple([step, *new])),
        ops.tuple([counter, *(node.op for node in state)]),
    )
    graph.nodes.append(Node(ops.get_tuple_element(loop, 2)))
    return Node(ops.get_tuple_element(loop, 1))


def conditional(graph: Graph) -> Node | None:
    """Two or three branches over two arrays each, sometimes seven."""
    if graph.depth >= DEEPEST:
        return None
    kind, sizes = graph.chance.choice(KINDS), _small(graph).sizes
    count = graph.chance.choice((2, 2, 3, 3, 7))
    branches, operands = [], []
    for _ in range(count):
        given = [_small(graph), _small(graph)]
        branches.append(_function(graph, given, kind, sizes))
        operands.append(ops.tuple([node.op for node in given]))
    index = graph.shaped(E.PRED if count == 2 else E.S32, ())
    return Node(ops.conditional(index.op, branches, operands))


def call(graph: Graph) -> Node | None:
    if graph.depth >= DEEPEST:
        return None
    given = [_small(graph), _small(graph)]
    kind, sizes = graph.chance.choice(KINDS), _small(graph).sizes
    return Node(
        ops.call(_function(graph, given, kind, sizes), [ops.tuple([node.op for node in given])])
    )


def map_(graph: Graph) -> Node | None:
    """A computation of scalars for each element."""
    node = graph.any(steps.ORDERED)
    inner = graph.nested()
    for number in range(2):
        inner.nodes.append(Node(inner.builder.parameter(number, Shape.array(node.kind, ()))))
    inner.grow((steps.unary, steps.binary, steps.select, steps.convert), 3)
    root = inner.fitted(inner.any(), node.kind, ())
    return Node(ops.map([node.op, graph.like(node).op], inner.builder.build(root.op)))


def barrier(graph: Graph) -> Node | None:
    """Two values that no pass may look behind."""
    nodes = [graph.any(), graph.any()]
    held = ops.optimization_barrier(ops.tuple([node.op for node in nodes]))
    graph.nodes.append(Node(ops.get_tuple_element(held, 1)))
    return Node(ops.get_tuple_element(held, 0))


def _function(graph: Graph, given: Sequence[Node], kind: E, sizes: Sequence[int]) -> Computation:
    """A computation of a tuple like the values given, whose result has this shape."""
    inner = graph.nested()
    shapes = [node.op.shape.without_layout() for node in given]
    operand: Op = inner.builder.parameter(0, Shape.tuple_of(shapes))
    inner.nodes += [Node(ops.get_tuple_element(operand, n)) for n in range(len(given))]
    inner.grow(STEPS, graph.chance.randint(0, 3))
    return inner.builder.build(inner.fitted(inner.any(), kind, sizes).op)


def _small(graph: Graph) -> Node:
    """A value small enough to be carried around."""
    node = graph.any()
    if math.prod(node.sizes) <= _STATE_SIZES:
        return node
    return graph.shaped(node.kind, (graph.chance.randint(0, 4),))


MOVES: tuple[Step, ...] = (
    steps.broadcast,
    steps.reshape,
    steps.transpose,
    steps.reverse,
    steps.slice_,
    steps.pad,
    steps.concatenate,
    steps.dynamic_slice,
    steps.dynamic_update_slice,
    steps.gather,
    steps.scatter,
    steps.select,
    steps.sort,
)
ELEMENTWISE: tuple[Step, ...] = (
    steps.unary,
    steps.binary,
    steps.compare,
    steps.clamp,
    steps.convert,
    steps.bitcast,
)
FOLDS: tuple[Step, ...] = (
    steps.reduce_exactly,
    steps.reduce_window_exactly,
    steps.places_of_extremes,
    steps.integer_dot,
)
INEXACT: tuple[Step, ...] = (
    inexact.function,
    inexact.float_arithmetic,
    inexact.float_sum,
    inexact.float_window,
    inexact.float_scatter,
    inexact.float_dot,
)
CONTROL: tuple[Step, ...] = (while_, conditional, call, map_, barrier)
STEPS: tuple[Step, ...] = (*MOVES, *ELEMENTWISE, *ELEMENTWISE, *FOLDS, *INEXACT, *CONTROL)
