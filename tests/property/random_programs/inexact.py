"""Instructions of random programs whose last bits are each platform's own, with their errors."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes

from tests.building import scalars
from tests.property.random_programs.graphs import FLOATS, Graph, Node
from tests.property.random_programs.steps import dot_dimensions, window
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_contract.types.element_type import ElementType as E


def function(graph: Graph) -> Node | None:
    """An elementary function of numbers from -4 to 4, or of numbers from 1 to 9."""
    node = _bounded(graph, graph.any(FLOATS, exact=False))
    choice, slope, size, shift = graph.chance.choice(_FUNCTIONS)
    shifted = ops.add(node.op, _full(graph, node, 5.0)) if shift else node.op
    eps = _eps(node.kind)
    error = slope * (node.error + (9 * eps if shift else 0)) + 16 * eps * size
    return Node(choice(shifted), error, size + error)


_FUNCTIONS: Sequence[tuple[Callable[..., Op], float, float, bool]] = (
    # A bound on the slope, one on the result, and whether 5 is added first.
    (ops.tanh, 1, 1, False),
    (ops.sin, 1, 1, False),
    (ops.cos, 1, 1, False),
    (ops.exp, 55, 55, False),
    (ops.logistic, 0.25, 1, False),
    (ops.erf, 1.2, 1, False),
    (ops.expm1, 55, 55, False),
    (ops.log, 1, 2.2, True),
    (ops.sqrt, 0.5, 3, True),
    (ops.rsqrt, 0.5, 1, True),
    (ops.log1p, 0.5, 2.4, True),
)


def float_arithmetic(graph: Graph) -> Node | None:
    """Sums and products of what is not exact, with the error they come to."""
    node = _bounded(graph, graph.any(FLOATS, exact=False))
    other = _bounded(graph, graph.like(node, exact=False))
    eps = _eps(node.kind)
    if graph.chance.random() < 0.5:
        size = node.size * other.size
        error = node.size * other.error + other.size * node.error + node.error * other.error
        return Node(ops.mul(node.op, other.op), error + 2 * eps * size, size)
    size = node.size + other.size
    combine = graph.chance.choice((ops.add, ops.sub))
    return Node(combine(node.op, other.op), node.error + other.error + 2 * eps * size, size)


def float_sum(graph: Graph) -> Node | None:
    node = _bounded(graph, graph.any(FLOATS, exact=False))
    along = graph.chance.sample(range(len(node.sizes)), graph.chance.randint(0, len(node.sizes)))
    count = math.prod(node.sizes[d] for d in along) + 1
    add = scalars(ops.add, node.kind, node.kind, name=f"add{next(graph.names)}")
    found = ops.reduce(node.op, graph.scalar(node.kind, 0), add, sorted(along))
    return _summed(found, count, node.size, node.error)


def float_window(graph: Graph) -> Node | None:
    node = _bounded(graph, graph.any(FLOATS, exact=False))
    if not node.sizes or 0 in node.sizes:
        return None
    columns = [window(graph, size) for size in node.sizes]
    sizes, strides, dilations, padding = zip(*columns, strict=True)
    add = scalars(ops.add, node.kind, node.kind, name=f"add{next(graph.names)}")
    found = ops.reduce_window_with_general_padding(
        node.op, graph.scalar(node.kind, 0), add, sizes, strides, None, dilations, padding
    )
    return _summed(found, math.prod(sizes) + 1, node.size, node.error)


def float_scatter(graph: Graph) -> Node | None:
    node = _bounded(graph, graph.any(FLOATS, exact=False))
    if not node.sizes:
        return None
    count = graph.chance.choice((1, 4, 9))
    updates = graph.shaped(node.kind, (count, *node.sizes[1:]), exact=False)
    updates = _bounded(graph, updates)
    numbers = ScatterDimensionNumbers(tuple(range(1, len(node.sizes))), (0,), (0,), 1)
    add = scalars(ops.add, node.kind, node.kind, name=f"add{next(graph.names)}")
    indices = graph.shaped(E.S32, (count, 1))
    found = ops.scatter(node.op, indices.op, updates.op, add, numbers)
    size, error = max(node.size, updates.size), max(node.error, updates.error)
    return _summed(found, count + 1, size, error)


def float_dot(graph: Graph) -> Node | None:
    node = _bounded(graph, graph.any(FLOATS, exact=False))
    numbers, sizes = dot_dimensions(graph, node)
    if math.prod(sizes) > _LARGEST_FACTOR:
        return None
    other = _bounded(graph, graph.shaped(node.kind, sizes, exact=False))
    count = math.prod(node.sizes[d] for d in numbers.lhs_contracting_dimensions)
    error = node.size * other.error + other.size * node.error + node.error * other.error
    found = ops.dot_general(node.op, other.op, numbers)
    return _summed(found, count + 1, node.size * other.size, error)


_LARGEST_FACTOR = 512


def _bounded(graph: Graph, node: Node) -> Node:
    """The value between -4 and 4."""
    if node.size <= 4:
        return node
    low, high = graph.scalar(node.kind, -4), graph.scalar(node.kind, 4)
    return Node(ops.clamp(low, node.op, high), node.error, 4.0)


def _summed(op: Op, count: int, size: float, error: float) -> Node:
    """A sum of so many terms of at most this size."""
    total = count * size
    return Node(op, count * error + 2 * count * _eps(op.shape.element_type) * total, total)


def _full(graph: Graph, node: Node, value: float) -> Op:
    return ops.broadcast(graph.scalar(node.kind, value), node.sizes)


def _eps(kind: E) -> float:
    numbers: Any = ml_dtypes
    return float(numbers.finfo(kind.dtype).eps)
