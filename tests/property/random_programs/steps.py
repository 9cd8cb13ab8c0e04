"""Steps of random programs: one function for each kind of instruction."""

import math
from collections.abc import Callable
from typing import Any

from tests.building import scalars
from tests.property.random_programs.graphs import FLOATS, INTEGERS, KINDS, SMALLEST, Graph, Node
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
)
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape

REAL = (*INTEGERS, *FLOATS)
ORDERED = (E.PRED, *REAL)
LOGICAL = (E.PRED, *INTEGERS)

_ANY_UNARY = (ops.neg, ops.abs, ops.sign)
_FLOAT_UNARY = (ops.floor, ops.ceil, ops.round, ops.round_nearest_even, ops.is_finite, ops.sqrt)
_INTEGER_UNARY = (ops.not_, ops.population_count, ops.clz)
_BINARY = (ops.add, ops.sub, ops.mul, ops.max, ops.min, ops.div, ops.rem)
_LOGICAL_BINARY = (ops.and_, ops.or_, ops.xor)
_SHIFTS = (ops.shift_left, ops.shift_right_arithmetic, ops.shift_right_logical)
_COMPARISONS = (ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge)


def unary(graph: Graph) -> Node | None:
    """An operation of one array that has one right answer."""
    node = graph.any()
    choices: tuple[Callable[..., Op], ...] = _ANY_UNARY
    if node.kind is E.PRED:
        choices = (ops.not_,)
    elif node.kind.is_complex:
        choices = (ops.neg, ops.real, ops.imag)
    elif node.kind.is_floating:
        choices += _FLOAT_UNARY
    else:
        choices = (ops.abs, ops.neg, ops.sign) if node.kind.is_signed_integer else (ops.neg,)
        choices += _INTEGER_UNARY
    return Node(graph.chance.choice(choices)(node.op))


def binary(graph: Graph) -> Node | None:
    """An operation of two arrays that has one right answer, or a scalar beside an array."""
    node = graph.any()
    choices: tuple[Callable[..., Op], ...] = _BINARY
    if node.kind is E.PRED:
        choices = _LOGICAL_BINARY
    elif node.kind.is_complex:
        choices = (ops.add, ops.sub)
    elif not node.kind.is_floating:
        choices += (*_LOGICAL_BINARY, *_SHIFTS)
    if graph.chance.random() < 0.3:
        other = ops.broadcast(graph.shaped(node.kind, ()).op, node.sizes)
    else:
        other = graph.like(node).op
    pair = [node.op, other]
    graph.chance.shuffle(pair)
    choice = graph.chance.choice(choices)
    result = choice(*pair)
    shrinks = choice in (ops.div, ops.rem) or (choice is ops.mul and graph.chance.random() < 0.5)
    if node.kind.is_floating and shrinks:
        result = _normal(result)
    return Node(result)


def compare(graph: Graph) -> Node | None:
    node = graph.any()
    choices = _COMPARISONS[:2] if node.kind.is_complex else _COMPARISONS
    return Node(graph.chance.choice(choices)(node.op, graph.like(node).op))


def select(graph: Graph) -> Node | None:
    node = graph.any(exact=False)
    other = graph.like(node, exact=False)
    sizes = node.sizes if graph.chance.random() < 0.7 else ()
    chosen = ops.select(graph.shaped(E.PRED, sizes).op, node.op, other.op)
    return _moved(chosen, node, other)


def clamp(graph: Graph) -> Node | None:
    node = graph.any(REAL)
    return Node(ops.clamp(graph.like(node).op, node.op, graph.like(node).op))


def convert(graph: Graph) -> Node | None:
    node = graph.any()
    kind = graph.chance.choice(KINDS)
    return None if node.kind.is_complex and not kind.is_complex else Node(_as(node.op, kind))


def bitcast(graph: Graph) -> Node | None:
    """The bits of integers as other integers; bits of floats would show which NaN it is."""
    node = graph.any((E.S32, E.U32, E.S64, E.U64, E.S8, E.U8))
    same = [
        kind for kind in INTEGERS if kind.bit_width == node.kind.bit_width and kind != node.kind
    ]
    return Node(ops.bitcast_convert_type(node.op, graph.chance.choice(same)))


def broadcast(graph: Graph) -> Node | None:
    """Dimensions put between, before and behind those there are."""
    node = graph.any(exact=False)
    rank = len(node.sizes) + graph.chance.randint(0, 2)
    kept = sorted(graph.chance.sample(range(rank), len(node.sizes)))
    sizes = [graph.chance.choice((0, 1, 2, 3, 5)) for _ in range(rank)]
    for place, size in zip(kept, node.sizes, strict=True):
        sizes[place] = size
    return _moved(ops.broadcast_in_dim(node.op, sizes, kept), node)


def reshape(graph: Graph) -> Node | None:
    """Dimensions split, merged, and such of one element added."""
    node = graph.any(exact=False)
    left, sizes = math.prod(node.sizes), []
    while left > 1 and len(sizes) < 3:
        factors = [n for n in range(1, min(left, 65) + 1) if left % n == 0]
        sizes.append(graph.chance.choice(factors))
        left //= sizes[-1]
    sizes.append(left)
    if graph.chance.random() < 0.3:
        sizes.insert(graph.chance.randint(0, len(sizes)), 1)
    if sizes == [1] and graph.chance.random() < 0.5:
        sizes = []
    return _moved(ops.reshape(node.op, sizes), node)


def transpose(graph: Graph) -> Node | None:
    node = graph.any(exact=False)
    order = list(range(len(node.sizes)))
    graph.chance.shuffle(order)
    return _moved(ops.transpose(node.op, order), node)


def reverse(graph: Graph) -> Node | None:
    node = graph.any(exact=False)
    along = graph.chance.sample(range(len(node.sizes)), graph.chance.randint(0, len(node.sizes)))
    return _moved(ops.rev(node.op, along), node)


def slice_(graph: Graph) -> Node | None:
    node = graph.any(exact=False)
    starts = [graph.chance.randint(0, size) for size in node.sizes]
    limits = [graph.chance.randint(s, size) for s, size in zip(starts, node.sizes, strict=True)]
    strides = [graph.chance.choice((1, 1, 2, 3)) for _ in starts]
    return _moved(ops.slice(node.op, starts, limits, strides), node)


def pad(graph: Graph) -> Node | None:
    """Elements put around and between, or cut off."""
    node = graph.any(exact=False)
    amounts = []
    for size in node.sizes:
        inside = graph.chance.choice((0, 0, 1, 2))
        whole = size + max(0, size - 1) * inside
        low = graph.chance.randint(-min(whole, 2), 3)
        high = graph.chance.randint(-min(whole + low, 2), 3)
        amounts.append(PaddingDimension(low, high, inside))
    value = graph.shaped(node.kind, ())
    if node.error:
        value = Node(ops.clamp(0, value.op, 1), 0.0, 1.0)
    padded = ops.pad(node.op, value.op, PaddingConfig(tuple(amounts)))
    return _moved(padded, node, value)


def concatenate(graph: Graph) -> Node | None:
    node = graph.any(exact=False)
    if not node.sizes:
        return None
    along = graph.chance.randrange(len(node.sizes))
    parts = [node]
    for _ in range(graph.chance.randint(0, 2)):
        sizes = list(node.sizes)
        sizes[along] = graph.chance.choice((0, 1, 2, 5, node.sizes[along]))
        parts.append(graph.shaped(node.kind, sizes, exact=not node.error))
    graph.chance.shuffle(parts)
    return _moved(ops.concat_in_dim([part.op for part in parts], along), *parts)


def dynamic_slice(graph: Graph) -> Node | None:
    node = graph.any(exact=False)
    sizes = [graph.chance.randint(0, size) for size in node.sizes]
    return _moved(ops.dynamic_slice(node.op, _starts(graph, node), sizes), node)


def dynamic_update_slice(graph: Graph) -> Node | None:
    node = graph.any(exact=False)
    sizes = [graph.chance.randint(0, size) for size in node.sizes]
    update = graph.shaped(node.kind, sizes, exact=not node.error)
    result = ops.dynamic_update_slice(node.op, update.op, _starts(graph, node))
    return _moved(result, node, update)


def gather(graph: Graph) -> Node | None:
    """Rows, or boxes, of an array."""
    node = graph.any(exact=False)
    if not node.sizes or 0 in node.sizes:
        return None
    rank = len(node.sizes)
    mapped = sorted(graph.chance.sample(range(rank), graph.chance.randint(1, rank)))
    collapsed = [d for d in mapped if graph.chance.random() < 0.6]
    sizes = [1 if d in collapsed else graph.chance.randint(1, n) for d, n in enumerate(node.sizes)]
    count = graph.chance.choice((0, 1, 3, 7))
    indices = graph.shaped(E.S32, (count, len(mapped)))
    offsets = range(1, 1 + rank - len(collapsed))
    numbers = GatherDimensionNumbers(tuple(offsets), tuple(collapsed), tuple(mapped), 1)
    return _moved(ops.gather(node.op, indices.op, numbers, sizes), node)


def scatter(graph: Graph) -> Node | None:
    """Rows of integers added to those of an array, or their largest taken."""
    node = graph.any((*INTEGERS, *FLOATS))
    if not node.sizes:
        return None
    exact = (ops.max, ops.min) if node.kind.is_floating else (ops.add, ops.mul, ops.max, ops.min)
    count = graph.chance.choice((0, 1, 4, 9))
    indices = graph.shaped(E.S32, (count, 1))
    updates = graph.shaped(node.kind, (count, *node.sizes[1:]))
    numbers = ScatterDimensionNumbers(tuple(range(1, len(node.sizes))), (0,), (0,), 1)
    function = graph.chance.choice(exact)
    combine = scalars(function, node.kind, node.kind, name=f"combine{next(graph.names)}")
    found = ops.scatter(node.op, indices.op, updates.op, combine, numbers)
    return Node(_settled(found))


def reduce_exactly(graph: Graph) -> Node | None:
    """Reductions whose order cannot show."""
    node = graph.any(ORDERED)
    along = graph.chance.sample(range(len(node.sizes)), graph.chance.randint(0, len(node.sizes)))
    computation, start = _monoid(graph, node.kind)
    return Node(_settled(ops.reduce(node.op, start, computation, sorted(along))))


def reduce_window_exactly(graph: Graph) -> Node | None:
    """Windows with strides, dilation and padding, running sums among them."""
    node = graph.any(ORDERED)
    if not node.sizes or 0 in node.sizes:
        return None
    columns = [window(graph, size) for size in node.sizes]
    if graph.chance.random() < 0.3:
        columns = [(1, 1, 1, (0, 0)) for _ in node.sizes]
        along = graph.chance.randrange(len(columns))
        length = node.sizes[along]
        edges = graph.chance.choice(((length - 1, 0), (0, length - 1)))
        columns[along] = (length, 1, 1, edges)
    sizes, strides, dilations, padding = zip(*columns, strict=True)
    computation, start = _monoid(graph, node.kind)
    found = ops.reduce_window_with_general_padding(
        node.op, start, computation, sizes, strides, None, dilations, padding
    )
    return Node(_settled(found))


def places_of_extremes(graph: Graph) -> Node | None:
    """Add the index of the largest element along a dimension, the first of several."""
    node = graph.any(INTEGERS)
    if not node.sizes:
        return None
    along = graph.chance.randrange(len(node.sizes))
    places = graph.builder.iota(Shape.array(E.S32, node.sizes), along)

    def better(best: Op, place: Op, value: Op, at: Op) -> Op:
        first = ops.and_(ops.eq(best, value), ops.lt(place, at))
        stays = ops.or_(ops.gt(best, value), first)
        return ops.tuple([ops.select(stays, best, value), ops.select(stays, place, at)])

    keep = scalars(better, *([node.kind, E.S32] * 2), name=f"better{next(graph.names)}")
    low = -(1 << (node.kind.bit_width - 1)) if node.kind.is_signed_integer else 0
    starts = [graph.scalar(node.kind, low), graph.scalar(E.S32, 2**31 - 1)]
    pair = ops.reduce([node.op, places], starts, keep, [along])
    graph.nodes.append(Node(ops.get_tuple_element(pair, 0)))
    return Node(ops.get_tuple_element(pair, 1))


def sort(graph: Graph) -> Node | None:
    """One or two arrays in the order of the first, which keeps equals as they are."""
    node = graph.any((*REAL, E.PRED))
    if not node.sizes:
        return None
    others = [graph.shaped(graph.chance.choice(KINDS), node.sizes)]
    arrays = [node, *others[: graph.chance.randint(0, 1)]]
    is_up = graph.chance.random() < 0.6

    def before(a: Op, b: Op, *_: Op) -> Op:
        if node.kind.is_floating:
            return ops.lt_total_order(a, b) if is_up else ops.gt_total_order(a, b)
        return ops.lt(a, b) if is_up else ops.gt(a, b)

    kinds = [array.kind for array in arrays for _ in range(2)]
    comparator = scalars(before, *kinds, name=f"before{next(graph.names)}")
    along = graph.chance.randrange(len(node.sizes))
    found = ops.sort([array.op for array in arrays], comparator, along, True)
    if len(arrays) == 1:
        return Node(found)
    graph.nodes.append(Node(ops.get_tuple_element(found, 0)))
    return Node(ops.get_tuple_element(found, 1))


def integer_dot(graph: Graph) -> Node | None:
    """A product of arrays of integers."""
    node = graph.any((E.S32, E.S8, E.U8, E.S64, E.U32))
    numbers, sizes = dot_dimensions(graph, node)
    if math.prod(sizes) > _LARGEST_FACTOR:
        return None
    other = graph.shaped(node.kind, sizes)
    wide = E.S32 if node.kind in (E.S8, E.U8) and graph.chance.random() < 0.5 else None
    return Node(ops.dot_general(node.op, other.op, numbers, preferred_element_type=wide))


_LARGEST_FACTOR = 512


def dot_dimensions(graph: Graph, node: Node) -> tuple[DotDimensionNumbers, list[int]]:
    """Draw the dimension numbers of a dot and the other operand's sizes, in any order."""
    rank = len(node.sizes)
    dims = list(range(rank))
    graph.chance.shuffle(dims)
    batch = dims[: graph.chance.randint(0, rank)]
    contracted = dims[len(batch) :][: graph.chance.randint(0, rank - len(batch))]
    free = [graph.chance.choice((0, 1, 2, 5, 9)) for _ in range(graph.chance.randint(0, 1))]
    places = [("b", d) for d in batch] + [("c", d) for d in contracted]
    places += [("f", n) for n in range(len(free))]
    graph.chance.shuffle(places)
    sizes = [free[n] if role == "f" else node.sizes[n] for role, n in places]
    numbers = DotDimensionNumbers(
        tuple(contracted),
        tuple(places.index(("c", d)) for d in contracted),
        tuple(batch),
        tuple(places.index(("b", d)) for d in batch),
    )
    return numbers, sizes


def _moved(op: Op, *nodes: Node) -> Node:
    """Elements of these values, unchanged."""
    return Node(op, max(node.error for node in nodes), max(node.size for node in nodes))


def _settled(op: Op) -> Op:
    """The value without the sign of zero, as no order of several zeros is promised."""
    if not op.shape.element_type.is_floating:
        return op
    return ops.add(op, op.builder.constant(op.shape.element_type.dtype.type(0)))


def _normal(op: Op) -> Op:
    """The value with 0 for what is near to 0."""
    bound = op.builder.constant(op.shape.element_type.dtype.type(SMALLEST))
    is_small = ops.lt(ops.abs(op), ops.broadcast(bound, op.shape.dimensions))
    zero = op.builder.constant(op.shape.element_type.dtype.type(0))
    return ops.select(is_small, ops.broadcast(zero, op.shape.dimensions), op)


def _as(op: Op, kind: E) -> Op:
    return ops.convert_element_type(op, kind)


def _starts(graph: Graph, node: Node) -> list[Op]:
    return [graph.shaped(E.S32, ()).op for _ in node.sizes]


def window(graph: Graph, size: int) -> tuple[int, int, int, tuple[int, int]]:
    """(size, stride, dilation, padding) of a window that fits at least once."""
    length = graph.chance.randint(1, 3)
    dilation = graph.chance.choice((1, 1, 2))
    missing = max(0, (length - 1) * dilation + 1 - size)
    low = graph.chance.randint(0, 2)
    return length, graph.chance.choice((1, 1, 2)), dilation, (low, missing + 1)


def _monoid(graph: Graph, kind: E) -> tuple[Any, Op]:
    """A reducer whose order cannot show, and a value to start from."""
    if kind.is_floating:
        choice = graph.chance.choice((ops.max, ops.min))
    elif kind is E.PRED:
        choice = graph.chance.choice((*_LOGICAL_BINARY, ops.max, ops.min))
    else:
        choice = graph.chance.choice((ops.add, ops.mul, ops.max, ops.min, *_LOGICAL_BINARY))
    computation = scalars(choice, kind, kind, name=f"reducer{next(graph.names)}")
    return computation, graph.shaped(kind, ()).op
