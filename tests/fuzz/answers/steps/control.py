"""Loops, sorts, random bits, custom calls and dynamic sizes, as steps of random modules."""

import math

import numpy as np

from tests.building import scalars
from tests.conformance.sweep.draws import drawing
from tests.fuzz.answers.steps.graph import FreeGraph
from tests.property.random_programs.graphs import FLOATS, INTEGERS, KINDS, Graph, Node, Step
from xla_client import Builder, ops
from xla_client.programs.builder import Op
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm, RngBitGeneratorAttributes
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

_BITS = (E.U8, E.U16, E.U32, E.U64, E.F32)


def scan(graph: Graph) -> Node | None:
    """A loop over slices of an array with a carried slice."""
    node = graph.any((*INTEGERS, *FLOATS))
    if not node.sizes:
        return None
    along = graph.chance.randrange(len(node.sizes))
    sizes = [size for number, size in enumerate(node.sizes) if number != along]
    carried = graph.shaped(node.kind, sizes)
    builder = Builder(f"step{next(graph.names)}")
    shape = Shape.array(node.kind, sizes)
    x, c = (builder.parameter(number, shape) for number in range(2))
    choices = (ops.add, ops.max, ops.sub) if node.kind.is_floating else (ops.add, ops.mul)
    after = graph.chance.choice(choices)(x, c)
    output = graph.chance.choice((after, ops.neg(x), c))
    step = builder.build(ops.tuple([output, after]))
    reverse = graph.chance.random() < 0.4
    pair = ops.scan([node.op], [carried.op], step, along, reverse)
    graph.nodes.append(Node(ops.get_tuple_element(pair, 1)))
    return Node(ops.get_tuple_element(pair, 0))


def exchanges(graph: Graph) -> Node | None:
    """A loop over many arrays, which it puts in another order in each iteration."""
    first = graph.any()
    if graph.depth or math.prod(first.sizes) > 64:
        return None
    count = graph.chance.choice((3, 12, 50))
    state = [first, *(graph.like(first) for _ in range(count - 1))]
    counter = graph.scalar(E.S32, 0)
    shapes = [Shape.scalar(E.S32), *(node.op.shape.without_layout() for node in state)]
    body, condition = graph.nested(), graph.nested()
    old = body.builder.parameter(0, Shape.tuple_of(shapes))
    parts = [ops.get_tuple_element(old, number) for number in range(count + 1)]
    moved = [parts[number] for number in graph.chance.sample(range(1, count + 1), count)]
    after = [ops.add(parts[0], body.scalar(E.S32, 1)), *moved]
    seen = condition.builder.parameter(0, Shape.tuple_of(shapes))
    limit = condition.scalar(E.S32, graph.chance.randint(0, 5))
    loop = ops.while_(
        condition.builder.build(ops.lt(ops.get_tuple_element(seen, 0), limit)),
        body.builder.build(ops.tuple(after)),
        ops.tuple([counter, *(node.op for node in state)]),
    )
    graph.nodes.append(Node(ops.get_tuple_element(loop, count)))
    return Node(ops.get_tuple_element(loop, graph.chance.randint(1, count)))


def sort_by_comparison(graph: Graph) -> Node | None:
    """A stable sort in an order in which zeros are equal; NaNs are left out."""
    node = graph.any((*INTEGERS, E.PRED))
    if not node.sizes:
        return None
    count = graph.chance.randint(0, 2)
    others = [graph.shaped(graph.chance.choice(KINDS), node.sizes) for _ in range(count)]
    arrays = [node, *others]
    before = graph.chance.choice((ops.lt, ops.gt))
    kinds = [array.kind for array in arrays for _ in range(2)]
    comparator = scalars(lambda a, b, *_: before(a, b), *kinds, name=f"lt{next(graph.names)}")
    along = graph.chance.randrange(len(node.sizes))
    found = ops.sort([array.op for array in arrays], comparator, along, True)
    if len(arrays) == 1:
        return Node(found)
    parts = [Node(ops.get_tuple_element(found, n)) for n in range(len(arrays))]
    graph.nodes += parts[:-1]
    return parts[-1]


def top_k(graph: Graph) -> Node | None:
    """The largest or smallest elements of each line, and where they are."""
    node = graph.any((*INTEGERS, *FLOATS))
    if not node.sizes:
        return None
    k = graph.chance.randint(0, node.sizes[-1])
    found = ops.top_k(node.op, k, graph.chance.random() < 0.7)
    graph.nodes.append(Node(ops.get_tuple_element(found, 1)))
    return Node(ops.get_tuple_element(found, 0))


def top_k_call(graph: Graph) -> Node | None:
    """The same as a custom call."""
    node = graph.any((E.F32,))
    if len(node.sizes) not in (1, 2) or 0 in node.sizes:
        return None
    sizes = (*node.sizes[:-1], graph.chance.randint(1, node.sizes[-1]))
    shape = Shape.tuple_of([Shape.array(kind, sizes) for kind in (E.F32, E.S32)])
    builder = Builder(f"greater{next(graph.names)}")
    x, y = (builder.parameter(number, Shape.scalar(E.F32)) for number in range(2))
    for number in range(2):
        builder.parameter(2 + number, Shape.scalar(E.S32))
    greater = builder.build(ops.gt_total_order(x, y))
    found = ops.custom_call([node.op], "TopK", shape, computation=greater)
    graph.nodes.append(Node(ops.get_tuple_element(found, 1)))
    return Node(ops.get_tuple_element(found, 0))


def random_bits(graph: Graph) -> Node | None:
    """Bits of a generator, and mostly its next state."""
    algorithm = graph.chance.choice((RandomAlgorithm.THREE_FRY, RandomAlgorithm.PHILOX))
    length = 2 if algorithm is RandomAlgorithm.THREE_FRY else 3
    state = graph.shaped(E.U64, (length,))
    sizes = [graph.chance.choice((0, 1, 3, 8)) for _ in range(graph.chance.randint(0, 2))]
    shape = Shape.array(graph.chance.choice(_BITS[:4]), sizes)
    if graph.chance.random() < 0.3:
        alone = RngBitGeneratorAttributes(algorithm, shape, has_state=False)
        return Node(graph.builder.instruction(Opcode.RNG_BIT_GENERATOR, [state.op], alone))
    pair = ops.rng_bit_generator(algorithm, state.op, shape)
    graph.nodes.append(Node(ops.get_tuple_element(pair, 0)))
    return Node(ops.get_tuple_element(pair, 1))


def batch_norm(graph: Graph) -> Node | None:
    """A normalisation, in one of three forms, of ordinary numbers."""
    assert isinstance(graph, FreeGraph)
    chance = graph.chance
    kind = chance.choice((E.F32, E.F64, E.F32))
    sizes = [chance.randint(1, 5) for _ in range(chance.randint(1, 4))]
    feature = chance.randrange(len(sizes))

    def drawn(shape: list[int]) -> Op:
        return graph.argument(graph.array(kind, shape, special=False)).op

    x = drawn(sizes)
    scale, offset, mean = (drawn([sizes[feature]]) for _ in range(3))
    variance = ops.abs(drawn([sizes[feature]]))
    form = chance.choice(("training", "inference", "grad"))
    if form == "inference":
        return Node(ops.batch_norm_inference(x, scale, offset, mean, variance, 0.1, feature))
    if form == "training":
        found = ops.batch_norm_training(x, scale, offset, 0.1, feature)
    else:
        found = ops.batch_norm_grad(x, scale, mean, variance, drawn(sizes), 0.1, feature)
    graph.nodes += [Node(ops.get_tuple_element(found, number)) for number in (1, 2)]
    return Node(ops.get_tuple_element(found, 0))


def dynamic_sizes(graph: Graph) -> Node | None:
    """A call whose inside has a size that is known when it runs."""
    node = graph.any((E.S32, E.S8, E.U32, E.S64))
    if not node.sizes or 0 in node.sizes:
        return None
    chance = graph.chance
    along = chance.randrange(len(node.sizes))
    size = graph.builder.constant(np.int32(chance.randint(0, node.sizes[along])))
    builder = Builder(f"dynamic{next(graph.names)}")
    x = builder.parameter(0, Shape.array(node.kind, node.sizes))
    n = builder.parameter(1, Shape.scalar(E.S32))
    value = ops.set_dimension_size(x, n, along)
    for _ in range(chance.randint(0, 2)):
        value = chance.choice(_DYNAMIC)(value)
    if chance.random() < 0.5:
        value = ops.reduce(
            value,
            builder.constant(np.zeros((), node.kind.dtype)),
            scalars(ops.add, node.kind, node.kind, name=f"add{next(graph.names)}"),
            list(range(value.shape.rank)),
        )
    else:
        dynamic = [d for d in range(value.shape.rank) if value.shape.is_dynamic(d)]
        value = ops.get_dimension_size(value, dynamic[0])
    return Node(ops.call(builder.build(value), [node.op, size]))


_DYNAMIC = (
    ops.neg,
    lambda x: ops.add(x, x),
    lambda x: ops.rev(x, [0]),
    lambda x: ops.transpose(x, list(range(x.shape.rank))[::-1]),
    lambda x: ops.concat_in_dim([x, x], 0),
    lambda x: ops.broadcast(x, [2]),
)


def transfer(graph: Graph) -> Node | None:
    """A call that sends an array, or a tuple of several, and receives it on the same channel."""
    assert isinstance(graph, FreeGraph)
    if graph.is_for_jaxlib:
        return None
    arrays = [graph.any() for _ in range(graph.chance.choice((1, 1, 2, 3)))]
    builder = Builder(f"transfer{next(graph.names)}")
    shapes = [Shape.array(array.kind, array.sizes) for array in arrays]
    values = [builder.parameter(number, shape) for number, shape in enumerate(shapes)]
    data = values[0] if len(values) == 1 else ops.tuple(values)
    channel = 1 + next(graph.names)
    ops.send(data, channel)
    received = ops.recv(builder, data.shape, channel)
    found = ops.call(builder.build(received), [array.op for array in arrays])
    if len(arrays) == 1:
        return Node(found)
    return Node(ops.get_tuple_element(found, graph.chance.randrange(len(arrays))))


def ordering(graph: Graph) -> Node | None:
    """Operations that give their operand back."""
    node = graph.any()
    opcode = graph.chance.choice((Opcode.COPY, Opcode.OPT_BARRIER))
    return Node(graph.builder.instruction(opcode, [node.op]))


def large_line(graph: Graph) -> Node | None:
    """A value of some thousand elements, which loops treat in blocks."""
    kind = graph.chance.choice((E.F32, E.F64, E.S32, E.BF16, E.U8, *drawing.COMPLEX[:1]))
    return graph.fresh(kind, graph.chance.choice(((4096,), (64, 33), (3, 1000), (1025,))))


STEPS: tuple[Step, ...] = (
    scan,
    exchanges,
    sort_by_comparison,
    top_k,
    top_k_call,
    random_bits,
    batch_norm,
    dynamic_sizes,
    transfer,
    ordering,
    large_line,
)
