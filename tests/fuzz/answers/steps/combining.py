"""Scatters, reductions and windows of several arrays, with combiners that are no plain sums."""

import math
from collections.abc import Callable, Sequence

from tests.building import scalars
from tests.fuzz.answers.steps.windows import NUMBERS, indices_of, plain_combiner
from tests.property.random_programs.graphs import INTEGERS, Graph, Node, Step
from xla_client import Computation, ops
from xla_client.programs.builder import Op
from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_contract.types.element_type import ElementType as E

_EXACT = (E.PRED, *INTEGERS, E.U4, E.U16)
"""Types whose combination has one answer in any order."""

_ASSOCIATIVE: tuple[Callable[..., Op], ...] = (
    ops.add,
    ops.mul,
    ops.max,
    ops.min,
    ops.xor,
    ops.or_,
)
_ORDERED: tuple[Callable[..., Op], ...] = (
    *_ASSOCIATIVE,
    ops.sub,
    lambda old, new: ops.add(new, new),
    lambda old, new: ops.sub(new, old),
    lambda old, new: ops.select(ops.lt(new, old), ops.xor(old, new), old),
)
"""Combiners that depend on the order of their terms, which a scatter has."""


def _fitting(kind: E, functions: Sequence[Callable[..., Op]]) -> Sequence[Callable[..., Op]]:
    return (ops.xor, ops.or_, ops.and_) if kind is E.PRED else functions


def _combiner(
    graph: Graph, kinds: Sequence[E], functions: Sequence[Callable[..., Op]]
) -> Computation:
    """Return a function of each value so far and each new one, which may depend on the others."""
    chosen = [graph.chance.choice(_fitting(kind, functions)) for kind in kinds]
    is_tied = len(kinds) > 1 and functions is _ORDERED and graph.chance.random() < 0.5

    def step(*values: Op) -> Op:
        old, new = values[: len(kinds)], values[len(kinds) :]
        after = [function(a, b) for function, a, b in zip(chosen, old, new, strict=True)]
        if is_tied:
            after[1] = ops.select(ops.lt(new[0], old[0]), after[1], old[1])
        return after[0] if len(after) == 1 else ops.tuple(after)

    return scalars(step, *kinds, *kinds, name=f"combine{next(graph.names)}")


def _kept(graph: Graph, found: Op, count: int) -> Node:
    """Add the elements of a result that is a tuple where there are several arrays."""
    if count == 1:
        return Node(found)
    parts = [Node(ops.get_tuple_element(found, number)) for number in range(count)]
    graph.nodes += parts[:-1]
    return parts[-1]


def _arrays(graph: Graph) -> list[Node]:
    """Return one to four arrays of equal dimensions, of types that are combined exactly.

    They are different ones: jaxlib scatters an array that is there twice into itself.
    """
    found = [graph.any(_EXACT)]
    for _ in range(graph.chance.choice((0, 0, 1, 2, 3))):
        other = graph.shaped(graph.chance.choice(_EXACT), found[0].sizes)
        known = [node.op for node in found]
        found.append(graph.fresh(other.kind, other.sizes) if other.op in known else other)
    return found


def scatter(graph: Graph) -> Node | None:
    """Updates at indices: of numbers by a plain function, or of several arrays in their order."""
    chance, arrays = graph.chance, _arrays(graph)
    is_plain = chance.random() < 0.4
    if is_plain:
        arrays = [graph.any(NUMBERS)]
    sizes, rank = arrays[0].sizes, len(arrays[0].sizes)
    dims = chance.sample(range(rank), rank)
    batching = tuple(sorted(dims[: chance.choice((0, 0, 1, 2))]))
    others = [d for d in dims if d not in batching]
    mapped = tuple(others[: chance.randint(0, len(others))])
    inserted = tuple(sorted(d for d in others if chance.random() < 0.4 and sizes[d]))
    kept = [d for d in range(rank) if d not in inserted and d not in batching]
    loose = [chance.choice((0, 1, 2, 7)) for _ in range(chance.randint(0, 2))]
    rows = [*(sizes[d] for d in batching), *loose]
    order = chance.sample(range(len(rows)), len(rows))
    rows = [rows[n] for n in order]
    indices, vector, places = indices_of(graph, rows, len(mapped))
    window = tuple(sorted(chance.sample(range(len(kept) + len(rows)), len(kept))))
    boxes = iter([min(chance.choice((0, 1, 2, sizes[d])), sizes[d]) for d in kept])
    outer = iter(rows)
    shape = [next(boxes) if n in window else next(outer) for n in range(len(kept) + len(rows))]
    if math.prod(shape) > 1024:
        return None
    updates = [graph.shaped(array.kind, shape) for array in arrays]
    numbers = ScatterDimensionNumbers(
        window,
        inserted,
        mapped,
        vector,
        batching,
        tuple(places[order.index(n)] for n in range(len(batching))),
    )
    kinds = [array.kind for array in arrays]
    combine = plain_combiner(graph, *kinds) if is_plain else _combiner(graph, kinds, _ORDERED)
    found = ops.scatter(
        [array.op for array in arrays], indices.op, [u.op for u in updates], combine, numbers
    )
    return _kept(graph, found, len(arrays))


def reduction_of_several(graph: Graph) -> Node | None:
    """A reduction of several arrays of different types, from values that are not neutral."""
    arrays = _arrays(graph)
    rank = len(arrays[0].sizes)
    along = graph.chance.sample(range(rank), graph.chance.randint(0, rank))
    starts = [graph.shaped(array.kind, ()) for array in arrays]
    combine = _combiner(graph, [array.kind for array in arrays], _ASSOCIATIVE)
    found = ops.reduce([a.op for a in arrays], [s.op for s in starts], combine, sorted(along))
    return _kept(graph, found, len(arrays))


def window_of_several(graph: Graph) -> Node | None:
    """Windows of several arrays, with dilations and padding that may be negative."""
    arrays, chance = _arrays(graph), graph.chance
    if not arrays[0].sizes:
        return None
    columns = [
        (
            chance.randint(1, 4),
            chance.randint(1, 3),
            chance.choice((1, 1, 2, 3)),
            chance.choice((1, 1, 2, 3)),
            (chance.randint(-2, 4), chance.randint(-2, 4)),
        )
        for _ in arrays[0].sizes
    ]
    sizes, strides, base, dilations, padding = zip(*columns, strict=True)
    starts = [graph.shaped(array.kind, ()) for array in arrays]
    combine = _combiner(graph, [array.kind for array in arrays], _ASSOCIATIVE)
    found = ops.reduce_window_with_general_padding(
        [a.op for a in arrays],
        [s.op for s in starts],
        combine,
        sizes,
        strides,
        base,
        dilations,
        padding,
    )
    return _kept(graph, found, len(arrays))


_KEYS: tuple[Callable[[Op], Op], ...] = (
    lambda x: x,
    ops.neg,
    lambda x: ops.xor(x, ops.add(x, x)),
    lambda x: ops.and_(x, ops.sub(x, ops.mul(x, x))),
)
_BEFORE = (ops.lt, ops.gt)


def sort_by_keys(graph: Graph) -> Node | None:
    """A stable sort by functions of several arrays, not of the first one, or by none."""
    chance, arrays = graph.chance, [a for a in _arrays(graph) if a.kind is not E.PRED]
    if not arrays or not arrays[0].sizes:
        return None
    keys = chance.sample(range(len(arrays)), chance.randint(0, min(2, len(arrays))))
    forms = [(key, chance.choice(_KEYS), chance.choice(_BEFORE)) for key in keys]

    def before(*sides: Op) -> Op:
        result = ops.ne(sides[0], sides[0])
        for key, form, better in reversed(forms):
            a, b = form(sides[2 * key]), form(sides[2 * key + 1])
            result = ops.or_(better(a, b), ops.and_(ops.eq(a, b), result))
        return result

    kinds = [array.kind for array in arrays for _ in range(2)]
    comparator = scalars(before, *kinds, name=f"before{next(graph.names)}")
    along = chance.randrange(len(arrays[0].sizes))
    found = ops.sort([array.op for array in arrays], comparator, along, True)
    return _kept(graph, found, len(arrays))


STEPS: tuple[Step, ...] = (
    scatter,
    scatter,
    scatter,
    reduction_of_several,
    window_of_several,
    sort_by_keys,
)
