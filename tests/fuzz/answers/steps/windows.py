"""Reductions, windows and gathers of all forms, as steps of random modules."""

from collections.abc import Callable, Sequence

from tests.building import scalars
from tests.property.random_programs.graphs import FLOATS, INTEGERS, Graph, Node, Step
from tests.property.random_programs.steps import window
from xla_client import Computation, ops
from xla_client.programs.builder import Op
from xla_contract.types.dimension_numbers import GatherDimensionNumbers
from xla_contract.types.element_type import ElementType as E

NUMBERS = (*FLOATS, *FLOATS, *INTEGERS, E.C64)
_INDICES = (E.S32, E.S32, E.S64, E.U64, E.U32, E.U16, E.U8, E.S8, E.S4, E.U4)


def plain_combiner(graph: Graph, kind: E) -> Computation:
    """Return an addition, mostly, or another associative function of two scalars."""
    choices: tuple[Callable[..., Op], ...] = (ops.add, ops.add, ops.mul)
    if kind is E.PRED:
        choices = (ops.and_, ops.or_)
    elif not kind.is_complex:
        choices += (ops.max, ops.min)
    function = graph.chance.choice(choices)
    return scalars(function, kind, kind, name=f"combine{next(graph.names)}")


def reduction(graph: Graph) -> Node | None:
    """A reduction along any dimensions."""
    node = graph.any((*NUMBERS, E.PRED))
    rank = len(node.sizes)
    along = sorted(graph.chance.sample(range(rank), graph.chance.randint(0, rank)))
    start = graph.shaped(node.kind, ())
    return Node(ops.reduce(node.op, start.op, plain_combiner(graph, node.kind), along))


def reduction_of_two(graph: Graph) -> Node | None:
    """A reduction of two arrays at once."""
    node = graph.any((*INTEGERS,))
    other = graph.shaped(graph.chance.choice(INTEGERS), node.sizes)
    rank = len(node.sizes)
    along = sorted(graph.chance.sample(range(rank), graph.chance.randint(0, rank)))
    kinds = [node.kind, other.kind, node.kind, other.kind]

    def step(a: Op, b: Op, x: Op, y: Op) -> Op:
        return ops.tuple([ops.add(a, x), ops.max(b, y)])

    combine = scalars(step, *kinds, name=f"pair{next(graph.names)}")
    starts = [graph.shaped(kind, ()).op for kind in kinds[:2]]
    pair = ops.reduce([node.op, other.op], starts, combine, along)
    graph.nodes.append(Node(ops.get_tuple_element(pair, 0)))
    return Node(ops.get_tuple_element(pair, 1))


def windows(graph: Graph) -> Node | None:
    """A windowed reduction with strides, padding and both dilations."""
    node = graph.any((*NUMBERS,))
    if not node.sizes or 0 in node.sizes:
        return None
    columns = [window(graph, size) for size in node.sizes]
    sizes, strides, dilations, padding = zip(*columns, strict=True)
    base = [graph.chance.choice((1, 1, 1, 2, 3)) for _ in node.sizes]
    start = graph.shaped(node.kind, ())
    found = ops.reduce_window_with_general_padding(
        node.op,
        start.op,
        plain_combiner(graph, node.kind),
        sizes,
        strides,
        base,
        dilations,
        padding,
    )
    return Node(found)


def running(graph: Graph) -> Node | None:
    """A running reduction along a dimension, in either direction."""
    node = graph.any(NUMBERS)
    if not node.sizes or 0 in node.sizes:
        return None
    along = graph.chance.randrange(len(node.sizes))
    sizes = [1] * len(node.sizes)
    sizes[along] = length = node.sizes[along]
    padding = [(0, 0)] * len(node.sizes)
    padding[along] = graph.chance.choice(((length - 1, 0), (0, length - 1)))
    start = graph.shaped(node.kind, ())
    combine = plain_combiner(graph, node.kind)
    found = ops.reduce_window_with_general_padding(
        node.op, start.op, combine, sizes, [1] * len(sizes), padding=padding
    )
    return Node(found)


def select_and_scatter(graph: Graph) -> Node | None:
    """Values added at the largest, or smallest, element of each window."""
    node = graph.any((*FLOATS, E.S32, E.S8))
    if not node.sizes or 0 in node.sizes:
        return None
    chance = graph.chance
    sizes = [chance.randint(1, min(3, size)) for size in node.sizes]
    strides = [chance.randint(1, 3) for _ in sizes]
    padding = [(chance.randint(0, size - 1), chance.randint(0, size - 1)) for size in sizes]
    counts = [
        (size + low + high - length) // stride + 1
        for size, (low, high), length, stride in zip(
            node.sizes, padding, sizes, strides, strict=True
        )
    ]
    source = graph.shaped(node.kind, counts)
    start = graph.shaped(node.kind, ())
    better = chance.choice((ops.ge, ops.le, ops.gt))
    select = scalars(better, node.kind, node.kind, name=f"select{next(graph.names)}")
    add = scalars(ops.add, node.kind, node.kind, name=f"add{next(graph.names)}")
    found = ops.select_and_scatter_with_general_padding(
        node.op, select, sizes, strides, padding, source.op, start.op, add
    )
    return Node(found)


def gather(graph: Graph) -> Node | None:
    """Slices at indices: dimensions in any order, batching ones, and none that are indexed."""
    node = graph.any()
    chance, rank = graph.chance, len(node.sizes)
    dims = chance.sample(range(rank), rank)
    batching = tuple(sorted(dims[: chance.choice((0, 0, 1))]))
    others = [d for d in dims if d not in batching]
    mapped = tuple(others[: chance.randint(0, len(others))])
    collapsed = tuple(sorted(d for d in others if chance.random() < 0.4 and node.sizes[d]))
    sizes = [
        1 if d in collapsed or d in batching else chance.randint(0, size)
        for d, size in enumerate(node.sizes)
    ]
    loose = [chance.choice((0, 1, 2, 5)) for _ in range(chance.randint(0, 2))]
    rows = [*(node.sizes[d] for d in batching), *loose]
    indices, vector, rows_at = indices_of(graph, rows, len(mapped))
    kept = rank - len(collapsed) - len(batching)
    offsets = tuple(sorted(chance.sample(range(kept + len(rows)), kept)))
    numbers = GatherDimensionNumbers(
        offsets, collapsed, mapped, vector, batching, tuple(rows_at[: len(batching)])
    )
    return Node(ops.gather(node.op, indices.op, numbers, sizes))


def indices_of(graph: Graph, rows: Sequence[int], width: int) -> tuple[Node, int, list[int]]:
    """Return indices for these rows, the dimension that has their parts, and those of the rows."""
    kind = graph.chance.choice(_INDICES)
    vector = graph.chance.choice((len(rows), len(rows), graph.chance.randint(0, len(rows))))
    places = [number + (number >= vector) for number in range(len(rows))]
    if width == 1 and graph.chance.random() < 0.3:
        return graph.shaped(kind, rows), len(rows), list(range(len(rows)))
    return graph.shaped(kind, (*rows[:vector], width, *rows[vector:])), vector, places


STEPS: tuple[Step, ...] = (
    reduction,
    reduction,
    reduction_of_two,
    windows,
    running,
    select_and_scatter,
    gather,
)
