"""Computations on scalars that have arrays and tuples inside, by operations that call them."""

from collections.abc import Callable

import numpy as np

from tests.building import scalars
from tests.property.random_programs.graphs import Graph, Node, Step
from xla_client import Computation, ops
from xla_client.programs.builder import Op
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
)
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape

_KINDS = (E.S32, E.S8, E.U32, E.S64, E.U8)


def _table(graph: Graph, x: Op, size: int = 3) -> Op:
    values = [graph.chance.randint(0, 9) for _ in range(size)]
    return x.builder.constant(np.array(values).astype(x.shape.element_type.dtype))


def _scalar(array: Op, position: int = 0) -> Op:
    return ops.reshape(ops.slice(array, [position], [position + 1], [1]), [])


def _weighted(graph: Graph, x: Op) -> Op:
    return _weighted_by(_table(graph, x), x)


def _looked_up(graph: Graph, x: Op) -> Op:
    index = ops.convert_element_type(x, E.S32)
    return ops.reshape(ops.dynamic_slice(_table(graph, x, 5), [index], [1]), [])


def _joined(graph: Graph, x: Op) -> Op:
    table = ops.concat_in_dim([_table(graph, x, 1), _table(graph, x, 2)], 0)
    return _weighted_by(table, x)


def _padded(graph: Graph, x: Op) -> Op:
    amounts = PaddingConfig((PaddingDimension(1, 1),))
    return _weighted_by(ops.pad(_table(graph, x, 1), _scalar(_table(graph, x, 1)), amounts), x)


def _counted(graph: Graph, x: Op) -> Op:
    count = x.builder.iota(Shape.array(x.shape.element_type, (3,)), 0)
    return _weighted_by(ops.add(count, _table(graph, x)), x)


def _weighted_by(table: Op, x: Op) -> Op:
    return ops.dot_general(table, ops.broadcast(x, [3]), DotDimensionNumbers((0,), (0,)))


def _of_a_tuple(graph: Graph, x: Op) -> Op:
    dtype = x.shape.element_type.dtype
    parts = [Literal.from_numpy(np.array(n).astype(dtype)) for n in (3, [1, 2, 4])]
    pair = x.builder.constant(Literal.tuple_of(parts))
    count, table = (ops.get_tuple_element(pair, number) for number in range(2))
    return ops.mul(count, _weighted_by(table, x))


def _sorted(graph: Graph, x: Op) -> Op:
    kind = x.shape.element_type
    less = scalars(ops.lt, kind, kind, name=f"less{next(graph.names)}")
    products = ops.mul(_table(graph, x), ops.broadcast(x, [3]))
    return _scalar(ops.sort([products], less, 0, True), 1)


def _chosen(graph: Graph, x: Op) -> Op:
    kind = x.shape.element_type
    branches = [scalars(f, kind, name=f"branch{next(graph.names)}") for f in (ops.neg, ops.not_)]
    return ops.conditional(ops.convert_element_type(x, E.S32), branches, [x, x])


_FORMS: tuple[Callable[[Graph, Op], Op], ...] = (
    _weighted,
    _looked_up,
    _joined,
    _padded,
    _counted,
    _of_a_tuple,
    _sorted,
    _chosen,
)


def _mapped(graph: Graph, node: Node, form: Callable[[Op], Op]) -> Op:
    return ops.map([node.op], scalars(form, node.kind, name=f"map{next(graph.names)}"))


def _first_of_sorted(graph: Graph, node: Node, form: Callable[[Op], Op]) -> Op:
    def before(a: Op, b: Op) -> Op:
        return ops.lt(form(a), form(b))

    comparator = scalars(before, node.kind, node.kind, name=f"before{next(graph.names)}")
    return ops.sort([node.op], comparator, graph.chance.randrange(len(node.sizes)), True)


def _reduced(graph: Graph, node: Node, form: Callable[[Op], Op]) -> Op:
    """A reduction of one line: a combination of one element each has one order."""
    combine = _combiner(graph, node, form)
    return ops.reduce(ops.broadcast(node.op, [1]), graph.shaped(node.kind, ()).op, combine, [0])


def _scattered(graph: Graph, node: Node, form: Callable[[Op], Op]) -> Op:
    rows = graph.shaped(E.S32, (4,))
    updates = graph.shaped(node.kind, (4, *node.sizes[1:]))
    numbers = ScatterDimensionNumbers(tuple(range(1, len(node.sizes))), (0,), (0,), 1)
    return ops.scatter(node.op, rows.op, updates.op, _combiner(graph, node, form), numbers)


def _scanned(graph: Graph, node: Node, form: Callable[[Op], Op]) -> Op:
    def step(x: Op, carried: Op) -> Op:
        after = ops.add(form(x), carried)
        return ops.tuple([after, after])

    body = scalars(step, node.kind, node.kind, name=f"step{next(graph.names)}")
    line = ops.reshape(node.op, [node.op.shape.element_count])
    return ops.get_tuple_element(ops.scan([line], [graph.shaped(node.kind, ()).op], body, 0), 0)


def _combiner(graph: Graph, node: Node, form: Callable[[Op], Op]) -> Computation:
    def combine(old: Op, new: Op) -> Op:
        return ops.sub(form(new), old)

    return scalars(combine, node.kind, node.kind, name=f"combine{next(graph.names)}")


_CALLERS = (_mapped, _first_of_sorted, _reduced, _scattered, _scanned)


def call_with_arrays(graph: Graph) -> Node | None:
    """An operation that calls a computation on scalars which is more than a formula."""
    node = graph.any(_KINDS)
    if not node.sizes or node.kind not in _KINDS:
        return None
    form = graph.chance.choice(_FORMS)
    called = scalars(lambda x: form(graph, x), node.kind, name=f"form{next(graph.names)}")
    caller = graph.chance.choice(_CALLERS)
    return Node(caller(graph, node, lambda x: ops.call(called, [x])))


STEPS: tuple[Step, ...] = (call_with_arrays,) * 3
